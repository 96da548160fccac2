"""Single columns of a table along the sequence, the fast ones above the slow ones."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from posenc.analysis.plot.canvas import Canvas, balanced, spaced
from posenc.analysis.plot.labels import Language
from posenc.analysis.plot.style import ThemeName
from posenc.analysis.plot.subject import checked_index, table_of
from posenc.encoding import Encoding
from posenc.errors import SettingError

if TYPE_CHECKING:
    import matplotlib.figure

SHOWN, MOST = 6, 24


def curves(
    table_or_encoding: Encoding | Tensor,
    length: int | None = None,
    dims: Sequence[int] | None = None,
    *,
    theme: ThemeName = "light",
    language: Language = "en",
) -> "matplotlib.figure.Figure":
    """One row for each of `dims` (None: six of them, evenly spaced), on one scale.

    The table is that of `heatmap`. Raises SettingError for dims that are not there or are too many.
    """
    table = table_of(table_or_encoding, length)
    count = table.values.shape[1]
    chosen = spaced(count, SHOWN) if dims is None else [int(dim) for dim in dims]
    if not 1 <= len(chosen) <= MOST:
        raise SettingError(f"dims={list(chosen)}: one figure shows 1 to {MOST} of them")
    columns = [table.values[:, checked_index("dims", dim, count)] for dim in chosen]
    low, high = balanced(*columns)
    rows = torch.arange(len(table.values))
    canvas = Canvas(theme, language, "curves", note=table.note, height=1.2 + 0.62 * len(chosen))
    first = None
    for row, (dim, values) in enumerate(zip(chosen, columns, strict=True)):
        first = axes = canvas.axes(len(chosen), 1, row + 1, sharex=first)
        axes.axhline(0.0, color=canvas.theme.grid, linewidth=0.8, zorder=1)
        canvas.line(axes, rows, values, linewidth=1.4)
        axes.set_ylim(low * 1.15, high * 1.15)
        axes.set_xlim(-0.5, len(rows) - 0.5)
        name = f"{canvas.say(table.columns)} {dim}"
        canvas.write(axes, name, (1.01, 0.5), transform=axes.transAxes, va="center")
        last = row == len(chosen) - 1
        axes.tick_params(labelbottom=last, bottom=last)
        axes.set_yticks([low, 0.0, high], labels=[f"{low:.2g}", "0", f"{high:.2g}"])
        axes.spines["bottom"].set_visible(last)
        if last:
            canvas.whole(axes.xaxis)
            canvas.label(axes, table.rows)
    return canvas.figure
