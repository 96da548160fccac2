"""What position adds to the score, against distance; and which distances share a value."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from posenc.analysis import measure
from posenc.analysis.plot.canvas import Canvas, spaced
from posenc.analysis.plot.labels import Language
from posenc.analysis.plot.style import ThemeName
from posenc.analysis.plot.subject import checked_index, checked_length, note_of
from posenc.encoding import Encoding
from posenc.errors import SettingError

if TYPE_CHECKING:
    import matplotlib.figure

SHOWN, MOST = 4, 12


def bias(
    encoding: Encoding,
    length: int = 48,
    heads: Sequence[int] | None = None,
    *,
    theme: ThemeName = "light",
    language: Language = "en",
) -> "matplotlib.figure.Figure":
    """The curve of each of `heads` (None: up to four), and buckets where there are any.

    The curve is `measure.position_bias`: of tables that meet queries or keys, it is for q = k =
    ones. Buckets are there where neighbouring distances share a
    value; they are numbered from the farthest past, as `measure.groups` finds them. Raises
    SettingError for heads that are not there, UnsupportedError for an encoding that adds nothing.
    """
    added = measure.position_bias(encoding, checked_length(length))
    count = len(added.values)
    chosen = spaced(count, SHOWN) if heads is None else [int(head) for head in heads]
    if not 1 <= len(chosen) <= MOST:
        raise SettingError(f"heads={chosen}: one figure shows 1 to {MOST} of them")
    curves = [added.values[checked_index("heads", head, count)] for head in chosen]
    buckets = measure.groups(added.values.T)
    shared = bool((buckets.diff() == 0).any())
    height = 4.6 if shared else 3.4
    canvas = Canvas(theme, language, "bias", note=note_of(encoding), height=height)
    place = (2, 1, 1) if shared else (1, 1, 1)
    axes = canvas.axes(*place, grid="y")
    for style, (head, values) in enumerate(zip(chosen, curves, strict=True)):
        canvas.line(axes, added.distance, values, style, label=canvas.say("head", head=head))
    axes.axvline(0, color=canvas.theme.muted, linewidth=0.8, linestyle=(0, (2, 2)))
    canvas.whole(axes.xaxis)
    canvas.label(axes, "distance", "added")
    if len(chosen) > 1:
        canvas.legend(axes)
    if shared:
        below = canvas.axes(2, 1, 2, grid="y", sharex=axes)
        canvas.line(below, added.distance, buckets, 2, drawstyle="steps-mid")
        canvas.whole(below.yaxis)
        canvas.label(below, "distance", "bucket", title="buckets")
    return canvas.figure
