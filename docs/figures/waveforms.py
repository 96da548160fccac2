import math

import torch
from figures._page import Page
from matplotlib.figure import Figure
from torch import Tensor

import posenc as pe
from posenc.analysis import measure

TEXTS = {
    "sine": ("sine", "正弦"),
    "triangle": ("triangle", "三角波"),
    "square": ("square", "方波"),
    "rich": ("with 3rd harmonic", "加三次谐波"),
    "distance": ("distance k", "距离 k"),
    "inner": ("inner product, relative", "内积（相对值）"),
}
STARTS = (0, 3, 7, 12, 20)


def rich(turns: Tensor) -> Tensor:
    """A sine with its third harmonic."""
    angle = 2 * math.pi * turns
    return angle.sin() + 0.3 * (3 * angle).sin()


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=3.6)
    waves = {"sine": "sine", "triangle": "triangle", "square": "square", "rich": rich}
    for column, (key, wave) in enumerate(waves.items()):
        above = page.axes(2, 4, column + 1)
        # One turn in 240 steps, and back to its start.
        closed = pe.Waveform(2, wave=wave, frequencies=(2 * math.pi / 240,))
        way = measure.position_table(closed, 241)
        if wave == "square":
            # What lies between its four points is a jump.
            page.line(
                above, way[:, 1], way[:, 0], column, marker="o", linestyle="none", markersize=6
            )
        else:
            page.line(above, way[:, 1], way[:, 0], column, linestyle="solid")
        above.set_aspect("equal")
        above.set(xlim=(-1.25, 1.25), ylim=(-1.25, 1.25), xticks=(), yticks=())
        above.spines[:].set_visible(False)
        page.label(above, title=key)
        below = page.axes(2, 4, column + 5, grid="y")
        products = measure.inner_products(measure.position_table(pe.Waveform(16, wave=wave), 64))
        products = products / products.diagonal().mean()
        for start in STARTS:
            row = products[start, start : start + 40]
            page.line(below, torch.arange(40), row, column, linewidth=0.9, linestyle="solid")
        below.set_ylim(-0.3, 1.3)
        if column:
            below.set_yticklabels([])
        page.label(below, x="distance", y="" if column else "inner")
    return page.figure
