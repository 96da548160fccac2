"""What position adds to the score, against distance; and which distances share a value."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from posenc.analysis import measure
from posenc.analysis.plot.labels import Language
from posenc.analysis.plot.sheet import Sheet, spaced
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
    found = measure.position_bias(encoding, checked_length(length))
    count = len(found.values)
    chosen = spaced(count, SHOWN) if heads is None else [int(head) for head in heads]
    if not 1 <= len(chosen) <= MOST:
        raise SettingError(f"heads={chosen}: one figure shows 1 to {MOST} of them")
    curves = [found.values[checked_index("heads", head, count)] for head in chosen]
    buckets = measure.groups(found.values.T)
    shared = bool((buckets.diff() == 0).any())
    height = 4.6 if shared else 3.4
    sheet = Sheet(theme, language, "bias", note=note_of(encoding), height=height)
    place = (2, 1, 1) if shared else (1, 1, 1)
    axes = sheet.axes(*place, grid="y")
    for style, (head, values) in enumerate(zip(chosen, curves, strict=True)):
        sheet.line(axes, found.distance, values, style, label=sheet.say("head", head=head))
    axes.axvline(0, color=sheet.theme.muted, linewidth=0.8, linestyle=(0, (2, 2)))
    sheet.whole(axes.xaxis)
    sheet.label(axes, "distance", "added")
    if len(chosen) > 1:
        sheet.legend(axes)
    if shared:
        below = sheet.axes(2, 1, 2, grid="y", sharex=axes)
        sheet.line(below, found.distance, buckets, 2, drawstyle="steps-mid")
        sheet.whole(below.yaxis)
        sheet.label(below, "distance", "bucket", title="buckets")
    return sheet.figure
