import math
from typing import Any

import torch
from figures._page import Page
from matplotlib.figure import Figure
from torch import Tensor

import posenc as pe
from posenc.analysis import measure

TEXTS = {
    "query": ("query, m = {at}", "查询 m = {at}"),
    "key": ("key, n = {at}", "键 n = {at}"),
    "score": ("score of q = k = (1, ..., 1)", "q = k = (1, ..., 1) 的得分"),
    "distance": ("distance", "距离"),
    "sum": ("all pairs", "各对之和"),
    "first": ("pair 0 alone", "只看第 0 对"),
    "last": ("pair 31 alone", "只看第 31 对"),
}
# Of one pair: radians per token, and the directions of query and key before they turn.
SPEED, Q, K = 0.21, 0.1, 0.5


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=3.1)
    places = page.figure.add_gridspec(1, 2, width_ratios=(1.0, 1.25))
    circle, curve = page.axes(places[0]), page.axes(places[1], grid="y")
    arrows(page, circle)
    f = pe.Rotary(64).frequencies()
    at = torch.arange(0, 257)
    page.line(curve, at, measure.score_curve(pe.Rotary(64), 257)[0], 0, label=page.say("sum"))
    for style, (key, pair) in enumerate({"first": 0, "last": 31}.items(), start=1):
        cosine = 2 * measure.cosine_sum(f[pair : pair + 1], at)
        page.line(curve, at, cosine, style, linewidth=1.0, label=page.say(key))
    page.label(curve, x="distance", title="score")
    page.legend(curve, loc="upper right", bbox_to_anchor=(1.0, 1.0))
    return page.figure


def arrows(page: Page, axes: Any) -> None:
    turn = torch.linspace(0, 2 * math.pi, 200)
    axes.plot(turn.cos().numpy(), turn.sin().numpy(), color=page.theme.grid, linewidth=1.0)
    for first, dashes in ((2, "solid"), (12, (0, (3, 1.5)))):
        for key, at, style in (("query", first, 0), ("key", first + 3, 1)):
            tip = point((Q if key == "query" else K) + at * SPEED)
            colour = page.theme.lines[style]
            axes.plot(*zip((0, 0), tip, strict=True), color=colour, linestyle=dashes, linewidth=1.8)
            axes.plot(*tip, marker=page.marker(style), color=colour, markersize=5)
            ends = {"ha": "center", "va": "bottom" if tip[1] > 0 else "top"}
            beside = tuple(1.1 * value for value in tip)
            page.write(axes, page.say(key, at=at), beside, **ends)
        between = torch.linspace(Q + first * SPEED, K + (first + 3) * SPEED, 20)
        axes.plot(*(0.4 * wave(between)).numpy(), color=page.theme.ink, linewidth=1.2)
    axes.set_aspect("equal")
    axes.set(xlim=(-1.4, 1.4), ylim=(-1.3, 1.3))
    axes.set_axis_off()


def point(angle: float) -> tuple[float, float]:
    return math.cos(angle), math.sin(angle)


def wave(angle: Tensor) -> Tensor:
    return torch.stack((angle.cos(), angle.sin()))
