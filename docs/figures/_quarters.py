"""The four parts of a score in their places: rows are the query's side, columns the key's."""

from typing import Any

from figures._page import Page
from torch import Tensor

from posenc.analysis.decomposition import Decomposition
from posenc.analysis.plot.canvas import balanced

NAMES = ("token_token", "token_position", "position_token", "position_position")


def alone(page: Page, found: Decomposition) -> None:
    """The parts of the first head, as all that a page shows."""
    parts = {name: part[0, 0] for name, part in found.parts().items()}
    quarters(page, page.figure.add_gridspec(2, 2), parts, balanced(*parts.values()))


def quarters(page: Page, grid: Any, parts: dict[str, Tensor], limits: tuple[float, float]) -> None:
    """Draw them in the first two rows and columns of a grid, on one scale."""
    for at, name in enumerate(NAMES):
        row, column = divmod(at, 2)
        axes = page.axes(grid[row, column])
        page.heat(axes, parts[name], limits=limits)
        axes.set_aspect("equal")
        page.label(axes, x="key" if row == 1 else "", y="query" if column == 0 else "", title=name)
