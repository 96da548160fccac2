"""How a comparison tells what it is doing: bars on a terminal, plain lines anywhere else."""

import time
from typing import IO, Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from posenc.lab.train import Progress as Training

LINE_SECONDS = 10.0


class Display(Protocol):
    """What `compare` tells of: the plan, each run as it goes, and remarks."""

    def __enter__(self) -> "Display": ...
    def __exit__(self, *reason: object) -> None: ...
    def plan(self, runs: int, done: int) -> None: ...
    def begin(self, name: str) -> None: ...
    def update(self, name: str, progress: Training) -> None: ...
    def end(self, name: str, state: str, message: str) -> None: ...
    def note(self, text: str) -> None: ...


def display(stream: IO[str]) -> Display:
    """The display that suits `stream`."""
    console = Console(file=stream)
    return BarDisplay(console) if console.is_terminal else LineDisplay(stream)


class Bars(Progress):
    """A bar for the whole and one for each run at work, which also know the time left."""

    def __init__(self, console: Console | None = None) -> None:
        super().__init__(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            TaskProgressColumn(),
            TextColumn("{task.fields[figures]}", markup=False),
            TimeRemainingColumn(compact=True),
            console=console,
            transient=True,
            get_time=lambda: time.monotonic(),
            speed_estimate_period=600.0,
        )
        self.ended = 0
        self.runs: dict[str, TaskID] = {}
        self._whole: TaskID | None = None

    def plan(self, runs: int, done: int) -> None:
        self.ended = done
        self._whole = self.add_task("all runs", total=runs, completed=done, figures="")

    def begin(self, name: str) -> None:
        self.runs[name] = self.add_task(_short(name), total=1.0, figures="starting")

    def move(self, name: str, progress: Training) -> float | None:
        """Take in how far a run is; the seconds that it still needs, None while nothing is known.

        A resumed run begins in the middle. That is no speed: the first step never counts as such.
        """
        self.update(self.runs[name], completed=progress.fraction, figures=_figures(progress))
        self._sum_up()
        return self._tasks[self.runs[name]].time_remaining

    def end(self, name: str, state: str) -> None:
        self.ended += state != "stopped"
        self.remove_task(self.runs.pop(name))
        self._sum_up()

    @property
    def done(self) -> float:
        """Runs that are done, and parts of those at work."""
        return self.ended + sum(self._tasks[task].completed for task in self.runs.values())

    def _sum_up(self) -> None:
        if self._whole is not None:
            whole = self._tasks[self._whole].total or 0
            self.update(self._whole, completed=self.done, figures=f"{self.ended} of {whole:.0f}")


class LineDisplay:
    """One line when a run begins and ends, and one every ten seconds while it goes."""

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream
        # Never shown: they keep the time.
        self.bars = Bars()
        self._last: dict[str, float] = {}

    def __enter__(self) -> "LineDisplay":
        return self

    def __exit__(self, *reason: object) -> None:
        self.stream.flush()

    def plan(self, runs: int, done: int) -> None:
        self.bars.plan(runs, done)
        self.note(_plan(runs, done))

    def begin(self, name: str) -> None:
        self.bars.begin(name)
        self._last[name] = time.monotonic()
        self.note(f"{name}: begins")

    def update(self, name: str, progress: Training) -> None:
        left = self.bars.move(name, progress)
        now = time.monotonic()
        if now - self._last[name] >= LINE_SECONDS:
            self._last[name] = now
            remaining = f", {_duration(left)} left" if left is not None and progress.step else ""
            self.note(f"{name}: {_figures(progress)}{remaining}")

    def end(self, name: str, state: str, message: str) -> None:
        self.bars.end(name, state)
        self.note(f"{name}: {_ending(state, message)}")

    def note(self, text: str) -> None:
        print(text, file=self.stream, flush=True)


class BarDisplay:
    """A bar for the whole and one for each run at work."""

    def __init__(self, console: Console) -> None:
        self.bars = Bars(console)

    def __enter__(self) -> "BarDisplay":
        self.bars.start()
        return self

    def __exit__(self, *reason: object) -> None:
        self.bars.stop()

    def plan(self, runs: int, done: int) -> None:
        self.note(_plan(runs, done))
        self.bars.plan(runs, done)

    def begin(self, name: str) -> None:
        self.bars.begin(name)

    def update(self, name: str, progress: Training) -> None:
        self.bars.move(name, progress)

    def end(self, name: str, state: str, message: str) -> None:
        self.bars.end(name, state)
        self.note(f"{name}: {_ending(state, message)}")

    def note(self, text: str) -> None:
        self.bars.console.print(text, markup=False, highlight=False)


def _short(name: str) -> str:
    """A run's folder name without its id."""
    return name.rpartition("-")[0]


def _plan(runs: int, done: int) -> str:
    return f"{runs} runs" + (f", of which {done} are done already" if done else "")


def _figures(progress: Training) -> str:
    if not progress.step:
        return "testing"
    return f"loss {progress.loss:.3f}, {progress.tokens_per_second / 1000:.1f}k tokens/s"


def _ending(state: str, message: str) -> str:
    return f"{state}: {message}" if message else state


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes}:{seconds:02}"
