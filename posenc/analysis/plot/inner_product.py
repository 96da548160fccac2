"""How alike two positions are, against their distance."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from posenc.analysis import measure
from posenc.analysis.plot.labels import Language
from posenc.analysis.plot.sheet import Sheet
from posenc.analysis.plot.style import ThemeName
from posenc.analysis.plot.subject import checked_index, checked_length, note_of
from posenc.encoding import Encoding
from posenc.errors import UnsupportedError
from posenc.lowering import embeds_only

if TYPE_CHECKING:
    import matplotlib.figure

# Below this a spread is the rounding of float64.
ROUNDING = 1e-9


def inner_product(
    encoding: Encoding,
    length: int = 128,
    pairs: bool = True,
    head: int = 0,
    *,
    theme: ThemeName = "light",
    language: Language = "en",
) -> "matplotlib.figure.Figure":
    """Mean and envelope of p[i] . p[j] against i - j, and the cosine of each pair below.

    Of an encoding with terms it is the score of q = k = ones instead, of one head. The mean is over
    all tokens so far apart, the envelope that of `measure.decay`. `pairs` adds the cosines of
    `measure.pair_cosines`, where the encoding turns. Raises SettingError for a length or a head
    out of reach.
    """
    scores = measure.equal_scores(encoding, checked_length(length))
    found = measure.by_distance(scores[checked_index("head", head, len(scores))])
    past = found.distance <= 0
    back, mean = -found.distance[past].flip(0), found.mean[past].flip(0)
    spread = float(found.spread[past].nan_to_num().max())
    envelope = measure.decay(mean.where(~mean.isnan(), -torch.inf))
    cosines = _cosines(encoding, length, head) if pairs else None
    absolute = embeds_only(encoding)
    title = "inner_product" if absolute else "inner_product_score"
    sheet = Sheet(
        theme, language, title, note=note_of(encoding), height=3.4 if cosines is None else 5.2
    )
    rows = 1 if cosines is None else 2
    axes = sheet.axes(rows, 1, 1, grid="y")
    varies = spread > ROUNDING * float(mean.nan_to_num().abs().max())
    label = sheet.say("mean_spread", spread=f"{spread:.2g}") if varies else sheet.say("mean")
    sheet.line(axes, back, mean, 0, label=label, zorder=4)
    for side, value in enumerate((envelope.upper, envelope.lower)):
        name = sheet.say("envelope") if side == 0 else None
        sheet.line(axes, back, value, 1, label=name, linewidth=1.0, zorder=3)
    axes.axhline(0.0, color=sheet.theme.muted, linewidth=0.7, zorder=2)
    axes.set_xlim(-0.5, length - 0.5)
    sheet.whole(axes.xaxis)
    sheet.label(axes, "back", "inner" if absolute else "score")
    sheet.legend(axes, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2)
    if cosines is not None:
        below = sheet.axes(2, 1, 2, sharex=axes)
        sheet.heat(below, cosines.T, limits=(-1.0, 1.0), bar="per_pair")
        sheet.label(below, "back", "pair")
    return sheet.figure


def _cosines(encoding: Encoding, length: int, head: int) -> Tensor | None:
    try:
        found = measure.pair_cosines(encoding, length)
    except UnsupportedError:
        return None
    return found[min(head, len(found) - 1)]
