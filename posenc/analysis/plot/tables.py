"""The table that an encoding is: one row for each position, or each distance."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float64
from torch import Tensor

from posenc.analysis import measure
from posenc.analysis.plot.canvas import (
    LONGEST,
    Canvas,
    Figure,
    balanced,
    checked_index,
    checked_length,
    spaced,
)
from posenc.analysis.plot.style import ThemeName
from posenc.encoding import Encoding
from posenc.errors import SettingError, ShapeError
from posenc.lowering import embeds_only
from posenc.words import Language

# The shares of numbers that colours are for in any case, and from which multiple of what they stay
# within the others are outliers. The largest of a million normal numbers is less than that.
KEPT, OUTLYING = (0.99, 0.95), 3.0
# How many columns curves are drawn of, where nobody says which, and at most.
SHOWN, MOST = 6, 24


@dataclass(frozen=True, eq=False)
class Table:
    """Numbers with one row per position, or per distance, and the words for both sides."""

    values: Float64[Tensor, "t c"]
    title: str
    rows: Literal["position", "back"]
    columns: Literal["dimension", "column"]
    note: object = ""


def table_of(source: Encoding | Tensor, length: int | None) -> Table:
    """An absolute encoding's vectors, any other's words on distances, or a table as it is.

    length None: 64 rows of an encoding, all of a table. Raises SettingError for a length out of
    reach, ShapeError for a table that is not (positions, columns) of real numbers.
    """
    if isinstance(source, Encoding):
        length = checked_length(64 if length is None else length, LONGEST)
        if embeds_only(source):
            values = measure.position_table(source, length)
            return Table(values, "heatmap_position", "position", "dimension", source)
        values = measure.distance_table(source, length)
        return Table(values, "heatmap_back", "back", "column", source)
    if not isinstance(source, Tensor) or source.ndim != 2 or not source.numel():
        shape = tuple(source.shape) if isinstance(source, Tensor) else type(source).__name__
        raise ShapeError(f"a figure of {shape}: give an encoding or a table (positions, columns)")
    if source.is_complex():
        raise ShapeError(f"a figure of a table of {source.dtype}: give real numbers")
    rows = source if length is None else source[: checked_length(length, LONGEST)]
    return Table(rows.detach().cpu().double(), "heatmap_row", "position", "column")


def heatmap(
    encoding_or_table: Encoding | Tensor,
    length: int | None = None,
    *,
    vmax: float | None = None,
    theme: ThemeName = "light",
    language: Language = "en",
) -> Figure:
    """Position x dimension of an absolute encoding or a table (t, c), as colours.

    Of any other encoding it is `measure.distance_table`: row n is what attention is told of a key
    n tokens back. length None: 64 rows of an encoding, all of a table. Colours reach from -vmax to
    vmax; None is the largest number, or what 99 % (95 %) of the numbers stay within where that is
    less than a third of it, and would leave the page white. The bar says how many lie beyond.
    Raises SettingError for a vmax that is not above 0, and what `table_of` and the encoding raise.

        plot.heatmap(pe.Sinusoidal(128), vmax=0.5)
    """
    table = table_of(encoding_or_table, length)
    limit = robust_limit(table.values) if vmax is None else float(vmax)
    if not 0 < limit < math.inf:
        raise SettingError(f"heatmap(vmax={vmax}): colours need a largest number above 0")
    sizes = table.values[table.values.isfinite()].abs()
    beyond = 100 * float((sizes > limit).double().mean()) if len(sizes) else 0.0
    canvas = Canvas(theme, language, table.title, note=table.note, height=4.2)
    axes = canvas.axes()
    bar, words = ("value_clipped", {"share": f"{beyond:.2g}"}) if beyond else ("value", {})
    canvas.heat(axes, table.values, limits=(-limit, limit), bar=bar, words=words)
    canvas.label(axes, table.columns, table.rows)
    return canvas.figure


def robust_limit(values: Tensor) -> float:
    """The largest number, or what nearly all stay within where that is a third of it or less."""
    limit = balanced(values)[1]
    sizes = values[values.isfinite()].abs().flatten()
    for share in KEPT if len(sizes) else ():
        usual = float(sizes.kthvalue(math.ceil(share * len(sizes))).values)
        limit = usual if 0 < OUTLYING * usual < limit else limit
    return limit


def curves(
    table_or_encoding: Encoding | Tensor,
    length: int | None = None,
    dims: Sequence[int] | None = None,
    *,
    theme: ThemeName = "light",
    language: Language = "en",
) -> Figure:
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
    axes = None
    for row, (dim, values) in enumerate(zip(chosen, columns, strict=True), start=1):
        axes = canvas.axes(len(chosen), 1, row, sharex=axes)
        axes.axhline(0.0, color=canvas.theme.grid, linewidth=0.8, zorder=1)
        canvas.line(axes, rows, values, linewidth=1.4)
        axes.set(xlim=(-0.5, len(rows) - 0.5), ylim=(low * 1.15, high * 1.15))
        name = f"{canvas.say(table.columns)} {dim}"
        canvas.write(axes, name, (1.01, 0.5), transform=axes.transAxes, va="center")
        last = row == len(chosen)
        axes.tick_params(labelbottom=last, bottom=last)
        axes.set_yticks([low, 0.0, high], labels=[f"{low:.2g}", "0", f"{high:.2g}"])
        axes.spines["bottom"].set_visible(last)
        if last:
            canvas.whole(axes.xaxis)
            canvas.label(axes, table.rows)
    return canvas.figure
