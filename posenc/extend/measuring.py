"""Who measures cells: this process, one after another, or workers of a cluster (`on_ray`)."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from posenc.extend.cells import Cell
from posenc.extend.work import Work

Row = dict[str, Any]
Measuring = Callable[[Work, Sequence[Cell]], Iterator[tuple[Cell, Row | str]]]
"""The row of each cell as it comes, or why there is none; an early end leaves the rest."""


def measured(work: Work, cell: Cell) -> Row | str:
    """The cell's row, or why it has none: a method may need more memory than there is."""
    try:
        return work.measure(cell)
    except (RuntimeError, MemoryError) as error:
        return str(error).partition("\n")[0]


def here(work: Work, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Row | str]]:
    """In this process, in their order."""
    for cell in cells:
        yield cell, measured(work, cell)
