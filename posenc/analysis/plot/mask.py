"""Who sees whom in one layer, and what several layers make of it."""

from typing import TYPE_CHECKING

from posenc.analysis import measure
from posenc.analysis.plot.canvas import Canvas
from posenc.analysis.plot.labels import Language
from posenc.analysis.plot.style import ThemeName
from posenc.analysis.plot.subject import checked_length, note_of
from posenc.errors import SettingError
from posenc.lowering import Lowerable

if TYPE_CHECKING:
    import matplotlib.figure

DEEPEST = 64


def mask(
    encoding: Lowerable,
    length: int = 32,
    layers: int = 4,
    causal: bool = True,
    *,
    theme: ThemeName = "light",
    language: Language = "en",
) -> "matplotlib.figure.Figure":
    """The mask of one layer, and after how many layers a key's token reaches a query.

    encoding may be a list, as for `posenc.attend`: [SlidingWindow(4), Sinks(1)]. What is blank is
    not reached within `layers` layers. Raises SettingError for a length or depth out of reach.
    """
    if not 1 <= layers <= DEEPEST:
        raise SettingError(f"layers={layers}: this figure shows 1 to {DEEPEST} layers")
    visible = measure.visibility(encoding, checked_length(length), causal=causal)
    needed = measure.receptive_field(visible, layers).double()
    canvas = Canvas(theme, language, "mask", note=note_of(encoding), height=3.4)
    nothing = float("nan")
    axes = canvas.axes(1, 2, 1)
    ones = visible.double().where(visible, nothing)
    canvas.heat(axes, ones, palette="sequential", limits=(1.0, 1.0 + layers))
    canvas.label(axes, "key", "query", title="one_layer")
    beside = canvas.axes(1, 2, 2)
    reached = needed.where(needed > 0, nothing)
    limits = (1.0, float(max(layers, 2)))
    canvas.heat(beside, reached, palette="sequential", limits=limits)
    canvas.bar(beside, "sequential", *limits, canvas.say("layers"), whole=True)
    canvas.label(beside, "key", title="field")
    for part in (axes, beside):
        part.set_aspect("equal")
    return canvas.figure
