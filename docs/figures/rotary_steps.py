import math
from typing import Any

import torch
from figures._page import Page
from matplotlib.figure import Figure
from matplotlib.patches import Wedge
from torch import Tensor

import posenc as pe
from posenc.analysis.plot.canvas import balanced

TEXTS = {
    "project": ("1. Project", "1. 投影"),
    "angles": ("2. Angles", "2. 角度"),
    "turned": ("3. Turn each pair", "3. 旋转每一对"),
    "scores": ("4. Inner products", "4. 内积"),
    "query": ("query", "查询"),
    "key": ("key", "键"),
    "position": ("position m", "位置 m"),
    "pair": ("pair {pair}", "第 {pair} 对"),
}
TOKENS, PAIRS, RADIUS = 4, 2, 0.45
# Radians per token are 1 and 1/4, so that both pairs are seen to turn.
ROPE = pe.Rotary(2 * PAIRS, base=16.0, layout="interleaved")


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=3.3)
    generator = torch.Generator().manual_seed(129)
    # Of length 1 in every pair, so that all arrows can be seen.
    angle = 2 * math.pi * torch.rand(2, 1, 1, TOKENS, PAIRS, generator=generator).double()
    q, k = torch.stack((angle.cos(), angle.sin()), dim=-1).flatten(-2)
    turned = pe.rotate(q, k, ROPE)
    grid = page.figure.add_gridspec(1, 4, width_ratios=(1.0, 1.0, 1.0, 1.7))
    cells(page, page.axes(grid[0]), "project", (q, k))
    sectors(page, page.axes(grid[1]))
    cells(page, page.axes(grid[2]), "turned", turned)
    scores = page.axes(grid[3])
    found = pe.scores(q, k, ROPE)[0, 0]
    low, high = limits = balanced(found)
    page.heat(scores, found, limits=limits)
    page.numbers(scores, found.tolist(), "diverging", (low, high))
    scores.set(xticks=range(TOKENS), yticks=range(TOKENS))
    scores.set_aspect("equal")
    page.label(scores, x="key", y="query", title="scores")
    return page.figure


def cells(page: Page, axes: Any, title: str, vectors: tuple[Tensor, ...]) -> None:
    """In each cell the query and the key of one token, as far as one pair holds them."""
    board(page, axes, title)
    for style, (name, x) in enumerate(zip(("query", "key"), vectors, strict=True)):
        for m, row in enumerate(RADIUS * x[0, 0].unflatten(-1, (PAIRS, 2))):
            for pair, (right, up) in enumerate(row.tolist()):
                colour = page.theme.lines[style]
                ends = {"xy": (pair + right, m - up), "xytext": (pair, m)}
                arrow = {"arrowstyle": "-|>", "color": colour, "shrinkA": 0, "shrinkB": 0}
                axes.annotate("", **ends, arrowprops=arrow | {"linewidth": 1.5})
        axes.plot([], [], color=page.theme.lines[style], label=page.say(name))
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.12), "handlelength": 1.0}
    page.legend(axes, **below, ncols=2, columnspacing=1.0)


def sectors(page: Page, axes: Any) -> None:
    """In each cell the angle by which that pair turns at that position."""
    board(page, axes, "angles")
    for m in range(TOKENS):
        for pair, speed in enumerate(ROPE.frequencies().tolist()):
            degrees = float(torch.rad2deg(torch.tensor(m * speed)))
            # Rows go downwards, and so would angles.
            look = {"facecolor": page.theme.lines[2], "alpha": 0.85}
            axes.add_patch(Wedge((pair, m), 0.8 * RADIUS, -degrees, 0.0, **look))


def board(page: Page, axes: Any, title: str) -> None:
    for m in range(TOKENS):
        for pair in range(PAIRS):
            look = {"facecolor": "none", "edgecolor": page.theme.grid}
            axes.add_patch(Wedge((pair, m), RADIUS, 0.0, 360.0, **look))
    axes.set(xlim=(-0.5, PAIRS - 0.5), ylim=(TOKENS - 0.5, -0.5))
    axes.set_aspect("equal")
    axes.grid(False)
    axes.set(yticks=range(TOKENS))
    axes.set_xticks(range(PAIRS), [page.say("pair", pair=pair) for pair in range(PAIRS)])
    axes.minorticks_off()
    page.label(axes, y="position" if title == "project" else "", title=title)
