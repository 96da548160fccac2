"""How a comparison tells what it is doing: bars on a terminal, plain lines anywhere else."""

import time
from typing import IO, Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as Bars

from posenc.lab.train import Progress

LINE_SECONDS = 10.0


class Display(Protocol):
    """What `compare` tells of: the plan, each run as it goes, and remarks."""

    def __enter__(self) -> "Display": ...
    def __exit__(self, *reason: object) -> None: ...
    def plan(self, runs: int, done: int) -> None: ...
    def begin(self, name: str) -> None: ...
    def update(self, name: str, progress: Progress) -> None: ...
    def end(self, name: str, state: str, message: str) -> None: ...
    def note(self, text: str) -> None: ...


def display(stream: IO[str]) -> Display:
    """The display that suits `stream`."""
    console = Console(file=stream)
    return BarDisplay(console) if console.is_terminal else LineDisplay(stream)


class Clocks:
    """Time left, from what was done since each run began here."""

    def __init__(self) -> None:
        self.total = 0
        self.finished = 0
        self._began: dict[str, tuple[float, float | None]] = {}
        self._fractions: dict[str, float] = {}

    def begin(self, name: str) -> None:
        self._began[name] = time.monotonic(), None
        self._fractions[name] = 0.0

    def update(self, name: str, fraction: float) -> float | None:
        """Seconds that `name` still needs; None while nothing is known."""
        at, first = self._began[name]
        self._fractions[name] = fraction
        # A resumed run begins in the middle, so only what is gained from here counts.
        if first is None:
            self._began[name] = time.monotonic(), fraction
            return None
        gained = fraction - first
        return (time.monotonic() - at) * (1 - fraction) / gained if gained > 0 else None

    def end(self, name: str, state: str) -> None:
        self.finished += state != "stopped"
        self._fractions.pop(name, None)

    @property
    def fraction(self) -> float:
        return (self.finished + sum(self._fractions.values())) / max(self.total, 1)


class LineDisplay:
    """One line when a run begins and ends, and one every ten seconds while it goes."""

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream
        self.clocks = Clocks()
        self._last: dict[str, float] = {}

    def __enter__(self) -> "LineDisplay":
        return self

    def __exit__(self, *reason: object) -> None:
        self.stream.flush()

    def plan(self, runs: int, done: int) -> None:
        self.clocks.total, self.clocks.finished = runs, done
        self.note(_plan(runs, done))

    def begin(self, name: str) -> None:
        self.clocks.begin(name)
        self._last[name] = time.monotonic()
        self.note(f"{name}: begins")

    def update(self, name: str, progress: Progress) -> None:
        left = self.clocks.update(name, progress.fraction)
        now = time.monotonic()
        if now - self._last[name] >= LINE_SECONDS:
            self._last[name] = now
            self.note(f"{name}: {_figures(progress, left)}")

    def end(self, name: str, state: str, message: str) -> None:
        self.clocks.end(name, state)
        self.note(f"{name}: {_ending(state, message)}")

    def note(self, text: str) -> None:
        print(text, file=self.stream, flush=True)


class BarDisplay:
    """A bar for the whole and one for each run at work."""

    def __init__(self, console: Console) -> None:
        self.clocks = Clocks()
        self._began = time.monotonic()
        self._first = 0.0
        self._tasks: dict[str, TaskID] = {}
        self._bars = Bars(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[figures]}", markup=False),
            console=console,
            transient=True,
        )

    def __enter__(self) -> "BarDisplay":
        self._bars.start()
        return self

    def __exit__(self, *reason: object) -> None:
        self._bars.stop()

    def plan(self, runs: int, done: int) -> None:
        self.clocks.total, self.clocks.finished = runs, done
        self._first = self.clocks.fraction
        self.note(_plan(runs, done))
        self._tasks[""] = self._bars.add_task("all runs", total=1.0, figures="")

    def begin(self, name: str) -> None:
        self.clocks.begin(name)
        self._tasks[name] = self._bars.add_task(_short(name), total=1.0, figures="starting")

    def update(self, name: str, progress: Progress) -> None:
        left = self.clocks.update(name, progress.fraction)
        self._move(name, progress.fraction, _figures(progress, left))
        self._overall()

    def end(self, name: str, state: str, message: str) -> None:
        self.clocks.end(name, state)
        self._bars.remove_task(self._tasks.pop(name))
        self.note(f"{name}: {_ending(state, message)}")
        self._overall()

    def note(self, text: str) -> None:
        self._bars.console.print(text, markup=False, highlight=False)

    def _overall(self) -> None:
        fraction = self.clocks.fraction
        gained = fraction - self._first
        figures = f"{self.clocks.finished} of {self.clocks.total}"
        if gained > 0:
            left = (time.monotonic() - self._began) * (1 - fraction) / gained
            figures += f", {_duration(left)} left"
        self._move("", fraction, figures)

    def _move(self, name: str, fraction: float, figures: str) -> None:
        changes: dict[str, Any] = {"completed": fraction, "figures": figures}
        self._bars.update(self._tasks[name], **changes)


def _short(name: str) -> str:
    """A run's folder name without its id."""
    return name.rpartition("-")[0]


def _plan(runs: int, done: int) -> str:
    return f"{runs} runs" + (f", of which {done} are done already" if done else "")


def _figures(progress: Progress, left: float | None) -> str:
    if not progress.step:
        return "testing"
    figures = f"loss {progress.loss:.3f}, {progress.tokens_per_second / 1000:.1f}k tokens/s"
    return figures + (f", {_duration(left)} left" if left is not None else "")


def _ending(state: str, message: str) -> str:
    return f"{state}: {message}" if message else state


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes}:{seconds:02}"
