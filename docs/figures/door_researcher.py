import torch
from figures._door import Door
from figures.extrapolation import LENGTHS, LOSSES, TEXTS
from matplotlib.figure import Figure

# Which of them are named beside their last point, and how far above it.
NAMED = {"learned": -0.25, "rotary": 0.25, "alibi": 0.0}


def draw(theme: str, language: str) -> Figure:
    """Losses of the lab's default comparison against the length of the text."""
    page = Door(theme, language, TEXTS)
    axes = page.bare(xscale="log")
    at = torch.tensor(LENGTHS)
    for style, (name, losses) in enumerate(LOSSES.items()):
        look = {"marker": page.marker(style), "markersize": 5, "linewidth": 2.0}
        page.line(axes, at, torch.tensor(losses), style, **look)
        if name in NAMED:
            page.name(axes, name, style, 570, losses[-1] + NAMED[name], va="center")
    axes.set(xlim=(55, 2000), ylim=(1.4, 4.05))
    page.label(axes, x="length", y="loss")
    return page.figure
