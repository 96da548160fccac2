from typing import Any

import torch
from figures._page import Page
from matplotlib.figure import Figure
from torch import Tensor

import posenc as pe
from posenc.analysis import measure

TEXTS = {
    "xy": ("Digits x and y", "第 x 位和第 y 位"),
    "zx": ("Digits z and x", "第 z 位和第 x 位"),
    "spring": ("Sine and cosine of one pair", "一对正弦和余弦"),
    "growth": ("position", "位置"),
    "x": ("x", "x"),
    "y": ("y", "y"),
    "z": ("z", "z"),
    "sine": ("sine", "正弦"),
    "cosine": ("cosine", "余弦"),
}
POSITIONS, TURNS = 8, 21
# How far to the right a number of 1 into the page is drawn, in positions.
DEPTH = 1.6
# Where the plane itself is drawn, before the first position.
WALL = -2.2


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=4.2)
    grid = page.figure.add_gridspec(2, 2, height_ratios=(1.0, 1.1))
    digits = measure.position_table(pe.Binary(3), POSITIONS)
    for place, plane in ((grid[0, 0], "xy"), (grid[0, 1], "zx")):
        points = digits[:, ["xyz".index(letter) for letter in plane]]
        axes = page.axes(place)
        walk(page, axes, points, torch.arange(POSITIONS), points)
        wall(page, axes, points, plane[0], plane[1])
        page.label(axes, title=plane)
    axes = page.axes(grid[1, :])
    fine = torch.linspace(0.0, TURNS - 1, 600).double()
    points = measure.position_table(pe.Sinusoidal(2), TURNS)
    walk(page, axes, points, fine, torch.stack((fine.sin(), fine.cos()), dim=-1))
    wall(page, axes, points, "sine", "cosine")
    page.label(axes, title="spring")
    return page.figure


def seen(at: Tensor | float, points: Tensor) -> tuple[Tensor, Tensor]:
    """From aside: positions go to the right, the first number into the page, the second up."""
    across, up = points.double().unbind(dim=-1)
    return at + DEPTH * across, up + 0.35 * across


def walk(page: Page, axes: Any, points: Tensor, at: Tensor, path: Tensor) -> None:
    x, y = seen(at, path)
    page.line(axes, x, y, 0, linewidth=1.3)
    x, y = seen(torch.arange(len(points)), points)
    axes.plot(x.numpy(), y.numpy(), "o", color=page.theme.lines[1], markersize=4)
    size = (points.max() - points.min()).item()
    for n, (right, top) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        # Low on the spring numbers would cover each other.
        if len(points) == POSITIONS or points[n, 1] > 0.3:
            place = (right, top + 0.16 * size)
            page.write(axes, str(n), place, ha="center", va="center", bbox=None)
    axes.set_axis_off()


def wall(page: Page, axes: Any, points: Tensor, across: str, up: str) -> None:
    """What is left of the points in the plane itself."""
    low, high = points.min().item(), points.max().item()
    size, middle = high - low, (low + high) / 2
    back = WALL - DEPTH * high
    corners = torch.tensor([[low, low], [high, low], [high, high], [low, high], [low, low]])
    page.line(axes, *seen(back, corners), 0, color=page.theme.grid, linewidth=1.0)
    x, y = seen(back, points)
    axes.plot(x.numpy(), y.numpy(), "o", color=page.theme.muted, markersize=4)
    together: dict[tuple[float, float], list[str]] = {}
    for n, place in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        together.setdefault(place, []).append(str(n))
    for (right, top), numbers in together.items():
        if len(numbers) > 1:
            page.write(axes, ", ".join(numbers), (right + 0.25, top), va="center", bbox=None)
    places = ((middle, low - 0.3 * size, across), (low - 0.3 * size, middle, up))
    for right, top, name in places:
        (a,), (b,) = seen(back, torch.tensor([[right, top]]))
        page.write(axes, page.say(name), (a.item(), b.item()), ha="center", va="center")
    last = len(points) - 1
    floor = 1.35 * low - 0.45 * size
    axes.plot([0, last], [floor, floor], color=page.theme.muted, linewidth=0.9)
    axes.plot(last, floor, ">", color=page.theme.muted, markersize=5)
    page.write(axes, page.say("growth"), (last / 2, floor), ha="center", va="center")
