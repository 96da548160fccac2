import torch
from figures._door import Door
from matplotlib.figure import Figure

import posenc as pe
from posenc.analysis import measure

TOKENS, PAIR, BETWEEN = 45, 1, 12


def draw(theme: str, language: str) -> Figure:
    """One pair of the sinusoids along the text: a helix, its tokens on it."""
    page = Door(theme, language, {})
    axes = page.bare(projection="3d")
    axes.set_axis_off()
    axes.set_box_aspect((2.6, 1.0, 1.0), zoom=1.95)
    axes.view_init(elev=14.0, azim=-66.0)
    points = measure.pair_points(pe.Sinusoidal(32), TOKENS)[0, :, PAIR]
    speed = measure.frequencies(pe.Sinusoidal(32))[0, PAIR]
    fine = torch.arange((TOKENS - 1) * BETWEEN + 1) / BETWEEN
    thread = (fine.numpy(), (speed * fine).cos().numpy(), (speed * fine).sin().numpy())
    axes.plot(*thread, color=page.theme.lines[0], linewidth=1.4, clip_on=False)
    at = torch.arange(TOKENS).numpy()
    look = {"c": at, "cmap": page.colours("sequential"), "linewidths": 0, "depthshade": False}
    axes.scatter(at, *points.T.numpy(), s=16, clip_on=False, **look)
    return page.figure
