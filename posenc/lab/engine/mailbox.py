"""Where runs on a cluster leave what they have to tell, and hear whether to go on.

An actor of Ray on the head of the cluster, which every worker and the driver reach; tasks have no
way of their own to be told anything. It imports no torch, and letters are bytes to it.
"""

from collections import deque


class Mailbox:
    """Letters in order of arrival; who is told to stop has to end with a checkpoint."""

    def __init__(self) -> None:
        self._letters: deque[tuple[str, bytes]] = deque()
        self._read = 0
        self._open, self._stopped = True, False
        self._over: set[str] = set()

    def begin(self, attempt: str, letter: bytes) -> bool:
        """Whether the attempt may begin; if so, with its first letter."""
        return self._open and self.post(attempt, letter)

    def post(self, attempt: str, letter: bytes) -> bool:
        """Whether the attempt is to go on."""
        if attempt in self._over:
            return False
        self._letters.append((attempt, letter))
        return not self._stopped

    def take(self, read: int) -> list[tuple[str, bytes]]:
        """All letters after the first `read` ever; who lost an answer asks again."""
        while self._read < read:
            self._letters.popleft()
            self._read += 1
        return list(self._letters)

    def close(self) -> None:
        """No further attempt begins."""
        self._open = False

    def stop(self) -> None:
        """All that have begun are told to stop, too."""
        self._open, self._stopped = False, True

    def forget(self, attempt: str) -> None:
        """This attempt is over: if its process is alive all the same, it has to end."""
        self._over.add(attempt)
