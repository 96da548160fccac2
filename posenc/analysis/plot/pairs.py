"""Two dimensions of an encoding together: positions on a circle, where it is one."""

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
from posenc.words import Language

NAMED = 7
# Pieces of a thread from one token to the next, which make it look round.
BETWEEN = 12


def circle(
    encoding: Encoding,
    pair: int = 0,
    length: int = 32,
    head: int = 0,
    *,
    theme: ThemeName = "light",
    language: Language = "en",
) -> Figure:
    """Where a pair of dimensions puts each position, and the two dimensions beside it.

    Points are those of `measure.pair_points`, of one head where heads differ; some carry their
    position. One dimension alone meets the same value again within a turn, the two together do not.
    Raises SettingError for a pair or a head that is not there, UnsupportedError for an encoding
    without vectors of positions.
    """
    points, position = _points(encoding, pair, length, head), torch.arange(length)
    canvas = Canvas(theme, language, "circle", pair=pair, note=encoding, height=3.4)
    low, high = balanced(points)
    axes = canvas.axes(1, 2, 1, grid="both", aspect="equal")
    axes.set(xlim=(1.25 * low, 1.25 * high), ylim=(1.25 * low, 1.25 * high))
    axes.plot(*points.T.numpy(), color=canvas.theme.grid, linewidth=0.9, zorder=2)
    look = {"c": position.numpy(), "cmap": canvas.colours("sequential"), "linewidths": 0}
    axes.scatter(*points.T.numpy(), s=20, zorder=3, **look)
    named: set[tuple[float, ...]] = set()
    beside_it = {"xytext": (4, 4), "textcoords": "offset points", "fontsize": 7.5, "zorder": 4}
    for n in spaced(length, NAMED):
        place = tuple(points[n].mul(1e6).round().tolist())
        if place not in named:
            axes.annotate(str(n), points[n].tolist(), **beside_it, **canvas.font())
        named.add(place)
    canvas.label(axes, "first", "second")
    beside = canvas.axes(1, 2, 2, grid="y")
    for style, name in enumerate(("first", "second")):
        canvas.line(beside, position, points[:, style], style, label=canvas.say(name))
    beside.set_ylim(1.25 * low, 1.75 * high)
    canvas.whole(beside.xaxis)
    canvas.label(beside, "position")
    canvas.legend(beside, bbox_to_anchor=(0.0, 1.0))
    return canvas.figure


def helix(
    encoding: Encoding,
    pair: int = 0,
    length: int = 64,
    head: int = 0,
    *,
    theme: ThemeName = "light",
    language: Language = "en",
) -> Figure:
    """The points of `circle`, drawn along the sequence in three dimensions.

    The thread between them is where the pair is between two tokens, if it turns steadily, and
    straight if not. Raises what `circle` raises.
    """
    from matplotlib.ticker import MaxNLocator

    points = _points(encoding, pair, length, head)
    thread = _thread(points)
    x, y = points.T.numpy()
    position = torch.arange(length).numpy()
    canvas = Canvas(theme, language, "helix", pair=pair, note=encoding, height=3.6)
    axes = canvas.axes(projection="3d")
    axes.set_box_aspect((2.6, 1.0, 1.0), zoom=1.3)
    between = torch.linspace(0, length - 1, len(thread), dtype=torch.float64).numpy()
    axes.view_init(elev=18.0, azim=-62.0)
    axes.plot(between, *thread.T.numpy(), color=canvas.theme.muted, linewidth=0.8, alpha=0.7)
    look = {"c": position, "cmap": canvas.colours("sequential"), "linewidths": 0}
    axes.scatter(position, x, y, s=14, depthshade=False, **look)
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
        axis.set_pane_color((0.0, 0.0, 0.0, 0.0))
        axis.line.set_color(canvas.theme.muted)
        axis._axinfo["grid"].update(color=canvas.theme.grid, linewidth=0.6)
        if axis is not axes.xaxis:
            axis.set_major_locator(MaxNLocator(3))
    canvas.whole(axes.xaxis)
    small = canvas.font() | {"fontsize": 8.5}
    axes.set_xlabel(canvas.say("position"), labelpad=12, **small)
    axes.set_ylabel(canvas.say("cos"), **small)
    axes.set_zlabel(canvas.say("sin"), **small)
    return canvas.figure


def _thread(points: Float64[Tensor, "t 2"]) -> Float64[Tensor, "s 2"]:
    """The way through the points: along the spiral that they lie on, else from one to the next."""
    plane = torch.view_as_complex(points.contiguous())
    steps = plane[1:] / plane[:-1]
    if not torch.allclose(steps, steps[0].expand_as(steps), rtol=0, atol=1e-9):
        return points
    at = torch.arange((len(points) - 1) * BETWEEN + 1, dtype=torch.float64) / BETWEEN
    return torch.view_as_real(plane[0] * steps[0] ** at)


def _points(encoding: Encoding, pair: int, length: int, head: int) -> Float64[Tensor, "t 2"]:
    """Where a head puts every position."""
    heads = measure.pair_points(encoding, checked_length(length, LONGEST))
    points = heads[checked_index("head", head, len(heads))]
    return points[:, checked_index("pair", pair, points.shape[1])]
