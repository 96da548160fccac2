import math

import torch
from figures._page import Page
from matplotlib.figure import Figure

import posenc as pe
from posenc.analysis import measure

TEXTS = {
    "binary": ("Three binary digits", "三位二进制数"),
    "sines": ("Three sines of the same periods", "周期相同的三个正弦"),
    "digit": ("digit {digit}", "第 {digit} 位"),
    "wave": ("sine {digit}", "正弦 {digit}"),
}
DIGITS, POSITIONS = 3, 8
# Aside of each number, so that it does not cover its corner.
ASIDE = 0.1


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=3.6)
    whole = torch.arange(POSITIONS, dtype=torch.float64)
    corners = measure.position_table(pe.Binary(DIGITS), POSITIONS)
    for place, name in enumerate(("binary", "sines"), start=1):
        axes = page.axes(1, 2, place, projection="3d")
        axes.view_init(elev=20.0, azim=-62.0)
        axes.set_box_aspect((1.0, 1.0, 1.0), zoom=0.9)
        for edge in edges():
            axes.plot(*edge.T.numpy(), color=page.theme.grid, linewidth=0.9)
        points = corners if name == "binary" else waves(whole)
        # In between, binary digits jump, and sines go on.
        path = corners if name == "binary" else waves(torch.linspace(0, 7, 400).double())
        look = {"color": page.theme.lines[0], "linewidth": 1.4, "alpha": 0.85}
        axes.plot(*path.T.numpy(), linestyle="dashed" if name == "binary" else "solid", **look)
        colour = page.theme.lines[1]
        axes.scatter(*points.T.numpy(), color=colour, s=26, depthshade=False, linewidths=0)
        for n, point in enumerate(points):
            at = point + ASIDE * (2 * corners[n] - 1)
            small = page.font() | {"fontsize": 10, "ha": "center", "va": "center"}
            axes.text(*at.tolist(), str(n), **small)
        for axis, letter in zip((axes.xaxis, axes.yaxis, axes.zaxis), "xyz", strict=True):
            axis.set_pane_color((0.0, 0.0, 0.0, 0.0))
            axis.line.set_color(page.theme.muted)
            axis._axinfo["grid"].update(color=page.theme.paper)
            axis.set_ticks([])
            digit = "xyz".index(letter)
            said = page.say("digit" if name == "binary" else "wave", digit=digit)
            getattr(axes, f"set_{letter}label")(
                said, labelpad=-10, **page.font() | {"fontsize": 8.5}
            )
        page.label(axes, title=name)
    return page.figure


def waves(at: torch.Tensor) -> torch.Tensor:
    """Sines about 1/2 that are lowest and highest where digits are 0 and 1, (positions, 3)."""
    turns = (at[:, None] + 0.5) / 2 ** torch.arange(1, DIGITS + 1)
    return 0.5 - 0.5 * (2 * math.pi * turns).sin()


def edges() -> list[torch.Tensor]:
    """The ends of the cube's edges: corners that differ in one digit."""
    corners = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * DIGITS)
    pairs = torch.combinations(torch.arange(len(corners)))
    return [corners[pair] for pair in pairs if (corners[pair[0]] != corners[pair[1]]).sum() == 1]
