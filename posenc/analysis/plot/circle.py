"""Two dimensions of an encoding together: positions on a circle, where it is one."""

from typing import TYPE_CHECKING

import torch

from posenc.analysis import measure
from posenc.analysis.plot.canvas import Canvas, balanced, spaced
from posenc.analysis.plot.labels import Language
from posenc.analysis.plot.style import ThemeName
from posenc.analysis.plot.subject import LONGEST, checked_index, checked_length, note_of
from posenc.encoding import Encoding

if TYPE_CHECKING:
    import matplotlib.figure

NAMED = 7


def circle(
    encoding: Encoding,
    pair: int = 0,
    length: int = 32,
    *,
    theme: ThemeName = "light",
    language: Language = "en",
) -> "matplotlib.figure.Figure":
    """Where a pair of dimensions puts each position, and the two dimensions beside it.

    Points are those of `measure.pair_points`, of the first head where heads differ; some carry
    their position. One dimension alone meets the same value again within a turn, the two together
    do not. Raises SettingError for a pair that is not there, UnsupportedError for an encoding
    without vectors of positions.
    """
    points = measure.pair_points(encoding, checked_length(length, LONGEST))[0]
    points = points[:, checked_index("pair", pair, points.shape[1])]
    at = torch.arange(length)
    canvas = Canvas(theme, language, "circle", pair=pair, note=note_of(encoding), height=3.4)
    low, high = balanced(points)
    axes = canvas.axes(1, 2, 1, grid="both", aspect="equal")
    axes.set(xlim=(1.25 * low, 1.25 * high), ylim=(1.25 * low, 1.25 * high))
    axes.plot(*points.T.numpy(), color=canvas.theme.grid, linewidth=0.9, zorder=2)
    colours = canvas.colours("sequential")
    axes.scatter(*points.T.numpy(), c=at.numpy(), cmap=colours, s=20, zorder=3, linewidths=0)
    named: set[tuple[float, ...]] = set()
    for n in spaced(length, NAMED):
        place = tuple(points[n].mul(1e6).round().tolist())
        if place in named:
            continue
        named.add(place)
        axes.annotate(
            str(n), points[n].tolist(), (4, 4), textcoords="offset points", fontsize=7.5,
            zorder=4, **canvas.font(),
        )  # fmt: skip
    canvas.label(axes, "first", "second")
    beside = canvas.axes(1, 2, 2, grid="y")
    for style, name in enumerate(("first", "second")):
        canvas.line(beside, at, points[:, style], style, label=canvas.say(name))
    beside.set_ylim(1.25 * low, 1.75 * high)
    canvas.whole(beside.xaxis)
    canvas.label(beside, "position")
    canvas.legend(beside, bbox_to_anchor=(0.0, 1.0))
    return canvas.figure
