"""How alike two positions are, against their distance."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from posenc.analysis import measure
from posenc.analysis.plot.canvas import Canvas
from posenc.analysis.plot.labels import Language, Words
from posenc.analysis.plot.style import ThemeName
from posenc.analysis.plot.subject import (
    LARGEST,
    checked_index,
    checked_length,
    note_of,
)
from posenc.encoding import Encoding
from posenc.errors import UnsupportedError
from posenc.lowering import embeds_only

if TYPE_CHECKING:
    import matplotlib.figure

# Below this a spread is the rounding of float64.
ROUNDING = 1e-9


def inner_product(
    encoding: Encoding,
    length: int | None = None,
    pairs: bool = True,
    head: int = 0,
    *,
    theme: ThemeName = "light",
    language: Language = "en",
) -> "matplotlib.figure.Figure":
    """Mean and envelope of p[i] . p[j] against i - j, and the cosine of each pair below.

    Of an encoding with terms it is the score of q = k = ones instead, of one head. The mean is over
    all tokens so far apart, the envelope that of `measure.decay`. `pairs` adds the cosines of
    `measure.pair_cosines`, where the encoding turns. length None: every row of a table, or of a
    longer one the first 1,024, which the figure says; 128 of what has no end. The farther apart,
    the fewer pairs of tokens the mean is over. Raises SettingError for a length or a head out of
    reach.
    """
    length, rows = reach_of(encoding) if length is None else (length, None)
    scores = measure.equal_scores(encoding, checked_length(length))
    curve = measure.by_distance(scores[checked_index("head", head, len(scores))])
    past = curve.distance <= 0
    back, mean = -curve.distance[past].flip(0), curve.mean[past].flip(0)
    spread = float(curve.spread[past].nan_to_num().max())
    envelope = measure.decay(mean.where(~mean.isnan(), -torch.inf))
    cosines = _cosines(encoding, length, head) if pairs else None
    absolute = embeds_only(encoding)
    note = note_of(encoding)
    if rows is not None and length < rows:
        shown = Words(language)("first_rows", shown=length, count=rows)
        note = f"{shown}; {note}"
    title = "inner_product" if absolute else "inner_product_score"
    canvas = Canvas(theme, language, title, note=note, height=3.4 if cosines is None else 5.2)
    axes = canvas.axes(1 if cosines is None else 2, 1, 1, grid="y")
    varies = spread > ROUNDING * float(mean.nan_to_num().abs().max())
    label = canvas.say("mean_spread", spread=f"{spread:.2g}") if varies else canvas.say("mean")
    canvas.line(axes, back, mean, 0, label=label, zorder=4)
    for side, value in enumerate((envelope.upper, envelope.lower)):
        name = canvas.say("envelope") if side == 0 else None
        canvas.line(axes, back, value, 1, label=name, linewidth=1.0, zorder=3)
    axes.axhline(0.0, color=canvas.theme.muted, linewidth=0.7, zorder=2)
    axes.set_xlim(-0.5, length - 0.5)
    canvas.whole(axes.xaxis)
    canvas.label(axes, "back", "inner" if absolute else "score")
    canvas.legend(axes, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2)
    if cosines is not None:
        below = canvas.axes(2, 1, 2, sharex=axes)
        canvas.heat(below, cosines.T, limits=(-1.0, 1.0), bar="per_pair")
        canvas.label(below, "back", "pair")
    return canvas.figure


def reach_of(encoding: Encoding) -> tuple[int, int | None]:
    """How many positions are shown, and how many there are, where that is known."""
    rows = getattr(encoding, "max_length", None)
    return (min(rows, LARGEST), rows) if isinstance(rows, int) and rows >= 2 else (128, None)


def _cosines(encoding: Encoding, length: int, head: int) -> Tensor | None:
    try:
        cosines = measure.pair_cosines(encoding, length)
    except UnsupportedError:
        return None
    return cosines[min(head, len(cosines) - 1)]
