"""The score and the five parts that it is the sum of."""

from typing import TYPE_CHECKING, Any

from torch import Tensor

from posenc.analysis.decompose import decompose
from posenc.analysis.decomposition import Decomposition
from posenc.analysis.plot.canvas import Canvas, balanced
from posenc.analysis.plot.labels import Language
from posenc.analysis.plot.style import ThemeName
from posenc.analysis.plot.subject import checked_index, note_of

if TYPE_CHECKING:
    import matplotlib.figure


def decomposition(
    x_or_q: Any,
    *inputs: Any,
    head: int = 0,
    row: int = 0,
    note: str | None = None,
    theme: ThemeName = "light",
    language: Language = "en",
    **options: Any,
) -> "matplotlib.figure.Figure":
    """What tokens, positions, and both together add to the scores, on one scale.

    Takes what `posenc.decompose` takes, (q, k, encoding) or (x, encoding, w_q, w_k) with its
    options, or what it returned. Shown are one head and one row of the batch; shares are those of
    `Decomposition.share`, over the batch. note stands below the figure, the encoding by default.
    Raises SettingError for a head or row that is not there,
    and what `decompose` raises.
    """
    split = x_or_q if isinstance(x_or_q, Decomposition) else decompose(x_or_q, *inputs, **options)
    batch, heads = split.visible.shape[:2]
    at = checked_index("row", row, batch), checked_index("head", head, heads)
    parts = {name: part[at] for name, part in split.parts().items()}
    parts = {name: part.where(split.visible[at], float("nan")) for name, part in parts.items()}
    share = {name: part[head].item() for name, part in split.share().items()}
    total = split.total()[at]
    limits = balanced(total.where(split.visible[at], 0.0), *parts.values())
    if note is None:
        note = next((note_of(item) for item in inputs if not isinstance(item, Tensor)), "")
    canvas = Canvas(theme, language, "decomposition", note=note, height=4.6)
    for place, (name, part) in enumerate({"total": total, **parts}.items(), start=1):
        axes = canvas.axes(2, 3, place)
        canvas.heat(axes, part, limits=limits, bar="score" if place == 3 else "")
        axes.set_aspect("equal")
        axes.tick_params(labelleft=place in (1, 4), labelbottom=place > 3)
        text = canvas.say(name)
        if name != "total":
            text = canvas.say("share", part=text, share=f"{100 * share[name]:.0f}")
        axes.set_title(text, fontsize=8, loc="left", **canvas.font())
        canvas.label(axes, "key" if place > 3 else "", "query" if place in (1, 4) else "")
    return canvas.figure
