"""A pair of dimensions against the position: a helix, where the pair turns on a circle."""

from typing import TYPE_CHECKING

import torch

from posenc.analysis import measure
from posenc.analysis.plot.canvas import Canvas
from posenc.analysis.plot.labels import Language
from posenc.analysis.plot.style import ThemeName
from posenc.analysis.plot.subject import LONGEST, checked_index, checked_length, note_of
from posenc.encoding import Encoding

if TYPE_CHECKING:
    import matplotlib.figure


def helix(
    encoding: Encoding,
    pair: int = 0,
    length: int = 64,
    *,
    theme: ThemeName = "light",
    language: Language = "en",
) -> "matplotlib.figure.Figure":
    """The points of `circle`, drawn along the sequence in three dimensions.

    Raises what `circle` raises.
    """
    points = measure.pair_points(encoding, checked_length(length, LONGEST))[0]
    x, y = points[:, checked_index("pair", pair, points.shape[1])].T.numpy()
    at = torch.arange(length).numpy()
    canvas = Canvas(theme, language, "helix", pair=pair, note=note_of(encoding), height=3.6)
    axes = canvas.axes(projection="3d")
    axes.set_box_aspect((2.6, 1.0, 1.0), zoom=1.3)
    axes.view_init(elev=18.0, azim=-62.0)
    axes.plot(at, x, y, color=canvas.theme.muted, linewidth=0.8, alpha=0.7)
    colours = canvas.colours("sequential")
    axes.scatter(at, x, y, c=at, cmap=colours, s=14, depthshade=False, linewidths=0)
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
        axis.set_pane_color((0.0, 0.0, 0.0, 0.0))
        axis.line.set_color(canvas.theme.muted)
        axis._axinfo["grid"].update(color=canvas.theme.grid, linewidth=0.6)
        canvas.whole(axis) if axis is axes.xaxis else axis.set_major_locator(_few())
    small = canvas.font() | {"fontsize": 8.5}
    axes.set_xlabel(canvas.say("position"), labelpad=12, **small)
    axes.set_ylabel(canvas.say("cos"), **small)
    axes.set_zlabel(canvas.say("sin"), **small)
    return canvas.figure


def _few() -> object:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(3)
