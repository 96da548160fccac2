"""The matrix of scores between equal tokens, and one row of it."""

from typing import TYPE_CHECKING

import torch

from posenc.analysis import measure
from posenc.analysis.plot.canvas import Canvas
from posenc.analysis.plot.labels import Language
from posenc.analysis.plot.style import ThemeName
from posenc.analysis.plot.subject import checked_index, checked_length, note_of
from posenc.encoding import Encoding

if TYPE_CHECKING:
    import matplotlib.figure


def scores(
    encoding: Encoding,
    length: int = 48,
    head: int = 0,
    query: int | None = None,
    *,
    theme: ThemeName = "light",
    language: Language = "en",
) -> "matplotlib.figure.Figure":
    """Scores where all tokens are alike, so that position alone is left: `measure.equal_scores`.

    Of an absolute encoding they are inner products of positions. The row is that of `query`; None
    is the one in the middle, or the last where no query sees the future. Raises SettingError for a
    length, head or query out of reach.
    """
    all_heads = measure.equal_scores(encoding, checked_length(length))
    matrix = all_heads[checked_index("head", head, len(all_heads))]
    if query is None:
        query = length - 1 if encoding.tags.causal_only else length // 2
    row = matrix[checked_index("query", query, length)]
    canvas = Canvas(theme, language, "scores", note=note_of(encoding), height=3.5)
    axes = canvas.axes(1, 2, 1)
    seen = matrix[matrix.isfinite()]
    least, most = (float(seen.min()), float(seen.max())) if len(seen) else (0.0, 1.0)
    if least < 0 < most:
        canvas.heat(axes, matrix, bar="score")
    else:
        palette, limits = "sequential", (least, most if most > least else least + 1.0)
        canvas.heat(axes, matrix, palette=palette, limits=limits, bar="score")
    axes.set_aspect("equal")
    axes.axhline(query, color=canvas.theme.ink, linewidth=0.9, linestyle=(0, (2, 2)))
    canvas.label(axes, "key", "query")
    beside = canvas.axes(1, 2, 2, grid="y")
    canvas.line(beside, torch.arange(length), row)
    beside.axvline(query, color=canvas.theme.muted, linewidth=0.9, linestyle=(0, (2, 2)))
    beside.set_xlim(-0.5, length - 0.5)
    canvas.whole(beside.xaxis)
    canvas.label(beside, "key", title="scores_row", query=query)
    return canvas.figure
