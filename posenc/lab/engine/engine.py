"""What an engine is given, what it tells, and what it promises."""

from collections import deque
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from posenc.lab.config import RunConfig
from posenc.lab.text import Corpus
from posenc.lab.train import Progress


@dataclass(frozen=True)
class Batch:
    """Runs that are not done, in the order in which they should begin.

    out     the folder, in which `runs` has one for each
    corpus  what runs read whose task is a text
    jobs    how many go at a time at most
    device  as it was asked for; auto is settled where a run runs
    """

    out: Path
    configs: tuple[RunConfig, ...]
    corpus: Corpus | None
    jobs: int
    device: str = "cpu"

    def folder(self, name: str) -> Path:
        return self.out / "runs" / name

    def summary(self, config: RunConfig) -> dict[str, Any]:
        return self.corpus.summary if self.corpus and config.of_text else {}


class Listener(Protocol):
    """Who hears of runs as they go."""

    def begin(self, name: str) -> None: ...
    def update(self, name: str, progress: Progress) -> None: ...
    def lost(self, name: str, message: str) -> None: ...
    def end(self, name: str, state: str, message: str) -> None: ...


class Carrier(Protocol):
    """Carries out batches of runs.

    `check` raises PosencError where runs on that device cannot be carried out. A run that raises
    is recorded in its folder, as is one whose process is killed here, and the others go on. On
    KeyboardInterrupt, or when the disk is full (LabError), runs write their checkpoints and end
    before `run_all` raises. After `until`, of time.monotonic, no further run begins: those at work
    come to their end, and then TimeoutError is raised.
    """

    def check(self, device: str) -> None: ...
    def run_all(self, batch: Batch, listener: Listener, until: float | None = None) -> None: ...


class Engine(Protocol):
    """A way of carrying runs out, as a person chose it.

    at_once       how many runs go at a time where nobody chose
    usual_device  where runs of `posenc compare` compute, which names none
    opened        a carrier, with what it holds for many batches, as the connection to a cluster
    """

    def at_once(self) -> int: ...
    def usual_device(self) -> str: ...
    def opened(self) -> AbstractContextManager[Carrier]: ...


def next_ready(waiting: deque[RunConfig], active: Iterable[str]) -> RunConfig | None:
    """Take the first that has not to wait for a run that it begins with."""
    coming = {config.name for config in waiting} | {*active}
    for config in waiting:
        if config.base not in coming:
            waiting.remove(config)
            return config
    return None


def too_late(waiting: int) -> TimeoutError:
    return TimeoutError(f"the time is over, and {waiting} runs have not begun")
