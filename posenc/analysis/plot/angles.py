"""How far each pair of a rotary encoding turns a key away from its query."""

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


def angles(
    encoding: Encoding,
    length: int = 64,
    head: int = 0,
    *,
    theme: ThemeName = "light",
    language: Language = "en",
) -> "matplotlib.figure.Figure":
    """Angles of all pairs against distance, from -pi to pi, and the turns that each completes.

    Angles are `measure.relative_angles`, turns `measure.turns` within `length` tokens: a pair left
    of one turn shows new angles to any longer input. Raises UnsupportedError for an encoding that
    does not turn.
    """
    wrapped = measure.relative_angles(encoding, checked_length(length, LONGEST), wrapped=True)
    wrapped = wrapped[checked_index("head", head, len(wrapped))]
    speed = measure.frequencies(encoding, length)
    turns = measure.turns(speed[min(head, len(speed) - 1)], length)
    canvas = Canvas(theme, language, "angles", note=note_of(encoding), height=3.6)
    grid = canvas.figure.add_gridspec(1, 2, width_ratios=(2.2, 1.0))
    axes = canvas.axes(grid[0])
    limits = (-torch.pi, torch.pi)
    canvas.heat(axes, wrapped.T, palette="cyclic", limits=limits, bar="radians")
    canvas.label(axes, "back", "pair")
    beside = canvas.axes(grid[1], grid="x", sharey=axes, xscale="log")
    turning = turns > 0
    rows = torch.arange(len(turns))[turning]
    beside.axvline(1.0, color=canvas.theme.muted, linewidth=1.0, linestyle=(0, (2, 2)))
    line = canvas.theme.lines[0]
    beside.plot(turns[turning].numpy(), rows.numpy(), "o", color=line, markersize=4)
    beside.tick_params(labelleft=False)
    beside.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    beside.minorticks_off()
    canvas.label(beside, "turns", title="angles_turns", length=length)
    return canvas.figure
