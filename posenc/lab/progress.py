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
from posenc.lab.words import TEXTS
from posenc.words import Language, Words

LINE_SECONDS = 10.0


class Display(Protocol):
    """What `compare` tells of: the plan, each run as it goes, and remarks."""

    def __enter__(self) -> "Display": ...
    def __exit__(self, *reason: object) -> None: ...
    def plan(self, runs: int, done: int) -> None: ...
    def begin(self, name: str) -> None: ...
    def update(self, name: str, progress: Training) -> None: ...
    def lost(self, name: str, message: str) -> None: ...
    def end(self, name: str, state: str, message: str) -> None: ...
    def note(self, text: str) -> None: ...
    def stopped(self) -> None: ...


def display(stream: IO[str], language: Language = "en") -> Display:
    """The display that suits `stream`."""
    console, say = Console(file=stream), Words(language, TEXTS)
    return BarDisplay(console, say) if console.is_terminal else LineDisplay(stream, say)


class Bars(Progress):
    """A bar for the whole and one for each run at work, which also know the time left."""

    def __init__(self, say: Words, console: Console | None = None) -> None:
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
        self.say = say
        self.ended = 0
        self.runs: dict[str, TaskID] = {}
        self._whole: TaskID | None = None

    def plan(self, runs: int, done: int) -> None:
        self.ended = done
        self._whole = self.add_task(self.say("all_runs"), total=runs, completed=done, figures="")

    def begin(self, name: str) -> None:
        self.runs[name] = self.add_task(_short(name), total=1.0, figures=self.say("starting"))

    def move(self, name: str, progress: Training) -> float | None:
        """Take in how far a run is; the seconds that it still needs, None while nothing is known.

        A resumed run begins in the middle. That is no speed: the first step never counts as such.
        """
        self.update(
            self.runs[name], completed=progress.fraction, figures=_figures(progress, self.say)
        )
        self._sum_up()
        return self._tasks[self.runs[name]].time_remaining

    def end(self, name: str, state: str) -> None:
        self.ended += state in ("done", "failed")
        self.remove_task(self.runs.pop(name))
        self._sum_up()

    @property
    def done(self) -> float:
        """Runs that are done, and parts of those at work."""
        return self.ended + sum(self._tasks[task].completed for task in self.runs.values())

    def _sum_up(self) -> None:
        if self._whole is not None:
            whole = self._tasks[self._whole].total or 0
            figures = self.say("of_all", ended=self.ended, whole=round(whole))
            self.update(self._whole, completed=self.done, figures=figures)


class LineDisplay:
    """One line when a run begins and ends, and one every ten seconds while it goes."""

    def __init__(self, stream: IO[str], say: Words) -> None:
        self.stream, self.say = stream, say
        # Never shown: they keep the time.
        self.bars = Bars(say)
        self._last: dict[str, float] = {}

    def __enter__(self) -> "LineDisplay":
        return self

    def __exit__(self, *reason: object) -> None:
        self.stream.flush()

    def plan(self, runs: int, done: int) -> None:
        self.bars.plan(runs, done)
        self.note(_plan(runs, done, self.say))

    def begin(self, name: str) -> None:
        self.bars.begin(name)
        self._last[name] = time.monotonic()
        self.note(self.say("begins", name=name))

    def update(self, name: str, progress: Training) -> None:
        left = self.bars.move(name, progress)
        now = time.monotonic()
        if now - self._last[name] >= LINE_SECONDS:
            self._last[name] = now
            known = left is not None and progress.step
            figures, remaining = _figures(progress, self.say), _duration(left or 0.0)
            text = "goes_left" if known else "goes"
            self.note(self.say(text, name=name, figures=figures, left=remaining))

    def lost(self, name: str, message: str) -> None:
        self.note(self.say("lost", name=name, message=message))

    def end(self, name: str, state: str, message: str) -> None:
        self.bars.end(name, state)
        self.note(_ending(name, state, message, self.say))

    def note(self, text: str) -> None:
        print(text, file=self.stream, flush=True)

    def stopped(self) -> None:
        self.note(self.say("stopped_early"))


class BarDisplay:
    """A bar for the whole and one for each run at work."""

    def __init__(self, console: Console, say: Words) -> None:
        self.say, self.bars = say, Bars(say, console)

    def __enter__(self) -> "BarDisplay":
        self.bars.start()
        return self

    def __exit__(self, *reason: object) -> None:
        self.bars.stop()

    def plan(self, runs: int, done: int) -> None:
        self.note(_plan(runs, done, self.say))
        self.bars.plan(runs, done)

    def begin(self, name: str) -> None:
        self.bars.begin(name)

    def update(self, name: str, progress: Training) -> None:
        self.bars.move(name, progress)

    def lost(self, name: str, message: str) -> None:
        self.note(self.say("lost", name=name, message=message))

    def end(self, name: str, state: str, message: str) -> None:
        self.bars.end(name, state)
        self.note(_ending(name, state, message, self.say))

    def note(self, text: str) -> None:
        self.bars.console.print(text, markup=False, highlight=False)

    def stopped(self) -> None:
        self.note(self.say("stopped_early"))


def _short(name: str) -> str:
    """A run's folder name without its id."""
    return name.rpartition("-")[0]


def _plan(runs: int, done: int, say: Words) -> str:
    return say("runs_done" if done else "runs", runs=runs, done=done)


def _figures(progress: Training, say: Words) -> str:
    if not progress.step:
        return say("testing")
    return say("training", loss=progress.loss, thousands=progress.tokens_per_second / 1000)


def _ending(name: str, state: str, message: str, say: Words) -> str:
    return say("ends_because" if message else "ends", name=name, state=say(state), message=message)


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes}:{seconds:02}"
