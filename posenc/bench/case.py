"""What is measured: which cases, and of each the inputs, the floor and the figure to reach."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, Self

from posenc.errors import PosencError

Call = Callable[[], object]
Measure = Literal["time", "overhead", "memory", "told"]
Unit = Literal["x", "µs", "MiB"]
UNITS: dict[Measure, Unit] = {"time": "x", "overhead": "µs", "memory": "MiB", "told": "MiB"}
# By the name of a group, how the page calls it; in the order of the cases.
GROUPS = {
    "rotary": "Rotating queries and keys",
    "attention": "Attention",
    "routing": "Which backend auto takes",
    "memory": "Memory",
    "decode": "Decoding",
    "overhead": "Calls that compute next to nothing",
    "model": "A whole model",
    "training": "The lab's training step",
    "positions": "Building positions",
    "conversion": "Converting checkpoints",
    "start": "Before anything runs",
}


@dataclass(frozen=True)
class Options:
    """only: groups, or words of names; seconds: about how long the rounds of a case take."""

    out: Path = Path("posenc-bench")
    only: tuple[str, ...] = ()
    quick: bool = False
    seconds: float = 3.0
    threads: int | None = None


class Unavailable(Exception):  # noqa: N818 - it says that there is nothing to run, not an error
    """Why a contestant cannot take part in a case."""


class Setting(Protocol):
    """Sizes of a case, as plain values; `inputs` makes its tensors, the same in every process."""

    def inputs(self) -> Any: ...

    def small(self) -> Self:
        """The same at sizes that run in no time: for warming up, and for --quick."""
        ...


@dataclass(frozen=True)
class Goal:
    """A figure to reach: `who` at most `reach` times `base`, or µs or MiB above it, and no peer
    better.

    `peers` are the contestants that do the same work as `who`; None stands for all that are neither
    ours, nor the floor, nor a `least`: a contestant that does only what `who` cannot leave out. Its
    figure stands beside one that is missed.
    """

    row: str
    line: str
    who: str
    base: str
    reach: float
    peers: tuple[str, ...] | None = None
    least: str | None = None


@dataclass(frozen=True)
class Case:
    """Contestants that compute the same thing on the same inputs.

    contestants   by name, functions of the inputs that return what is run; a name that begins
                  with "posenc" is ours. They may raise Unavailable, or ModuleNotFoundError.
    floor         the contestant that all are compared with
    measure       "time" in turns in one process, as a ratio; "overhead", the same in microseconds
                  above, for calls so short that Python is most of them; "memory" added in
                  processes of their own, or "told" by processes that a contestant starts
    goals         at least one: what is measured is also judged
    rounds        fewest and most of them; memory takes the fewest
    warm          whether the first call is left out
    curve, tokens   the picture that this case is a point of, and where
    in_quick      whether a smoke run may have it
    """

    name: str
    group: str
    setting: Setting
    contestants: Mapping[str, Callable[[Any], Call]]
    floor: str
    measure: Measure = "time"
    goals: tuple[Goal, ...] = ()
    rounds: tuple[int, int] = (7, 40)
    warm: bool = True
    curve: str | None = None
    tokens: int = 0
    in_quick: bool = True

    @property
    def unit(self) -> Unit:
        return UNITS[self.measure]

    @property
    def beside(self) -> str:
        """The word between a figure and what it is compared with."""
        return "times" if self.unit == "x" else f"{self.unit} above"


def prepared(make: Callable[[Any], Call], inputs: Any) -> Call | str:
    """What a contestant runs, after one call of it; or why it cannot."""
    try:
        call = make(inputs)
        call()
    except ModuleNotFoundError as error:
        return f"{error.name} is not installed"
    except (Unavailable, PosencError) as error:
        return str(error)
    except Exception as error:
        # Other people's code and compilers fail in many ways, none of which ends the benchmark.
        return f"failed: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return call
