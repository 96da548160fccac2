import math

import torch
from figures._page import Page
from matplotlib.figure import Figure

import posenc as pe
from posenc.analysis import measure

TEXTS = {
    "cosine": ("cosine", "余弦"),
    "sine": ("sine", "正弦"),
    "circle": ("Sixteen positions on one circle", "一个圆上的十六个位置"),
    "spread": ("Spread of inner products", "内积的离散程度"),
    "distance": ("distance", "距离"),
    "quadrature": ("sine with cosine", "正弦配余弦"),
    "single": ("sines only", "只有正弦"),
    "mismatched": ("other frequency", "频率不同"),
}


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=3.3)
    left, right = page.figure.add_gridspec(1, 2, width_ratios=(1.0, 1.25))
    axes = page.axes(left, aspect="equal")
    points = measure.position_table(pe.Waveform(2, frequencies=[2 * math.pi / 16]), 16)
    sine, cosine = points.T
    turn = torch.linspace(0, 2 * math.pi, 200, dtype=torch.float64)
    axes.plot(turn.cos(), turn.sin(), color=page.theme.grid, linewidth=1.0)
    axes.axhline(sine[2], color=page.theme.lines[1], linestyle="dashed", linewidth=1.2)
    axes.scatter(cosine, sine, color=page.theme.lines[0], s=22, zorder=3, linewidths=0)
    same = [2, 6]
    axes.scatter(cosine[same], sine[same], color=page.theme.lines[1], s=40, zorder=4, linewidths=0)
    for n, (x, y) in enumerate(zip(cosine.tolist(), sine.tolist(), strict=True)):
        page.write(
            axes, str(n), (1.17 * x, 1.17 * y), ha="center", va="center", color=page.theme.ink
        )
    axes.set(xlim=(-1.35, 1.35), ylim=(-1.35, 1.35), xticks=[-1, 0, 1], yticks=[-1, 0, 1])
    page.label(axes, x="cosine", y="sine", title="circle")
    axes = page.axes(right, grid="y")
    for style, pairing in enumerate(("quadrature", "single", "mismatched")):
        table = measure.position_table(pe.Waveform(32, pairing=pairing), 128)
        found = measure.by_distance(measure.inner_products(table))
        # Few pairs of positions are farther apart, and their spread is by chance small.
        near = (found.distance >= 0) & (found.distance < 64)
        page.line(axes, found.distance[near], found.spread[near], style, label=page.say(pairing))
    axes.set_ylim(-0.5, 14)
    page.label(axes, x="distance", title="spread")
    page.legend(axes, loc="upper right", bbox_to_anchor=(1.0, 1.0))
    return page.figure
