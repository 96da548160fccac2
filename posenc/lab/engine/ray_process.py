"""The command's side of a cluster: a process apart that speaks with Ray, heard and asked to end.

Ray ends a process that is connected to it when the node dies through which it is. That must not be
the process of the command, which has a report to write and a reason to tell.
"""

import importlib.util
import time
from typing import TYPE_CHECKING, Any

from posenc.errors import LabError, installing
from posenc.lab.engine.engine import Batch, Listener
from posenc.lab.engine.parcel import token
from posenc.lab.engine.ray_attend import attend, gone
from posenc.lab.engine.ray_driver import PATIENCE_SECONDS
from posenc.lab.engine.worker import server

if TYPE_CHECKING:
    from posenc.lab.engine.ray import Ray


class RayProcess:
    """Carries batches out, all by one connection, which is made when it is first needed."""

    def __init__(self, engine: "Ray") -> None:
        self.engine = engine
        self._process: Any = None
        self._connection: Any = None

    def check(self, device: str) -> None:
        """As `Carrier.check`. Raises LabError where Ray is missing, or the cluster."""
        self.engine.device(device)
        self._send(None)
        while (message := self._next()) is None:
            pass
        if message[1] is not None:
            raise message[1]

    def run_all(self, batch: Batch, listener: Listener, until: float | None = None) -> None:
        """As `Carrier.run_all`. Raises LabError where the cluster is gone."""
        begun: set[str] = set()
        over = False
        with token(batch.out) as shared:
            self._send((batch, shared))
            try:
                while not over:
                    if until is not None and time.monotonic() > until:
                        self._send("late")
                        until = None
                    kind, *told = self._next() or ("quiet",)
                    if kind == "over":
                        over = True
                        if told[0] is not None:
                            raise told[0]
                    elif kind != "quiet":
                        _note(begun, kind, told[0])
                        getattr(listener, kind)(*told)
            except BaseException:
                if not over and self._process is not None:
                    self._stop(listener, begun)
                raise
            finally:
                for name in sorted(begun):
                    listener.end(name, "stopped", "")

    def close(self) -> None:
        """Let the connection go."""
        if self._process is None:
            return
        self._connection.close()
        self._process.join(PATIENCE_SECONDS)
        self._process.kill()
        self._process.join()
        self._process = None

    def _send(self, message: Any) -> None:
        if self._process is None:
            self._start()
        try:
            self._connection.send(message)
        except OSError:
            raise self._gone() from None

    def _start(self) -> None:
        if importlib.util.find_spec("ray") is None:
            raise LabError(f"--engine ray needs Ray: {installing('ray')}")
        context = server()
        self._connection, other = context.Pipe()
        # Started by the server, it hears nothing of the terminal's Ctrl-C.
        self._process = context.Process(target=attend, args=(other, self.engine))
        self._process.start()
        other.close()

    def _next(self) -> Any:
        """What the process tells; None where that is nothing for a while."""
        try:
            return self._connection.recv() if self._connection.poll(0.5) else None
        except (EOFError, OSError):
            raise self._gone() from None

    def _gone(self) -> LabError:
        self._connection.close()
        self._process.join(PATIENCE_SECONDS)
        code, self._process = self._process.exitcode, None
        return gone(self.engine, f"Ray ended its process here with code {code}")

    def _stop(self, listener: Listener, begun: set[str]) -> None:
        """Have the runs end with checkpoints; a second Ctrl-C kills them."""
        deadline = time.monotonic() + 2 * PATIENCE_SECONDS
        try:
            self._send("stop")
            while time.monotonic() < deadline:
                kind, *told = self._next() or ("quiet",)
                if kind == "over":
                    return
                # Only how they ended matters now: a listener that raises would leave them running.
                if kind == "end" and told[0] in begun:
                    begun.remove(told[0])
                    listener.end(*told)
        except LabError:
            return
        except BaseException:
            self._process.kill()
            raise


def _note(begun: set[str], kind: str, name: str) -> None:
    if kind == "begin":
        begun.add(name)
    elif kind == "end":
        begun.discard(name)
