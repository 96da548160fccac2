"""What is done on a GPU, as data: rows, each a function and its arguments, in steps."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Found = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """Where rows are made.

    device    of torch
    tiny      whether sizes are those of a rehearsal, which shows that rows run and nothing else
    """

    device: str
    tiny: bool

    @property
    def timed(self) -> bool:
        """Whether its clock says anything: a rehearsal's does not."""
        return not self.tiny


@dataclass(frozen=True)
class Row:
    """One thing to find out: `make(place, *arguments)`, plain values for JSON.

    It goes to another process, so `make` is a function of a module and the arguments are plain.
    """

    name: str
    make: Callable[..., Found]
    arguments: tuple[Any, ...] = ()

    def found(self, place: Place) -> Found:
        return self.make(place, *self.arguments)


@dataclass(frozen=True)
class Step:
    """Rows that belong together.

    side_by_side  whether several are made at once, in processes of their own: not where clocks run
    seconds       the longest that one row may take
    ready         what compiles all that a row runs, of its arguments; it is called for several rows
                  at once, before one after another is made
    """

    name: str
    title: str
    rows: Callable[[Place], Iterator[Row]]
    side_by_side: bool = False
    seconds: float = 120.0
    ready: Callable[..., Found] | None = None
