import torch
from figures._page import Page
from matplotlib.figure import Figure

import posenc as pe
from posenc.analysis import measure

TEXTS = {
    "distance": ("position k of the key", "键的位置 k"),
    "product": ("inner product", "内积"),
    "sum": ("(Q + p0) · (K + pk)", "(Q + p0) · (K + pk)"),
    "parts": ("Its four parts", "四个部分"),
    "token_token": ("Q · K", "Q · K"),
    "token_position": ("Q · pk", "Q · pk"),
    "position_token": ("p0 · K", "p0 · K"),
    "position_position": ("p0 · pk", "p0 · pk"),
}
WIDTH = LENGTH = 512


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=3.3)
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, WIDTH, generator=generator, dtype=torch.float64).unbind()
    p = measure.position_table(pe.Sinusoidal(WIDTH), LENGTH)
    everywhere = torch.ones(LENGTH, dtype=torch.float64)
    parts = {
        "position_position": p @ p[0],
        "token_position": p @ q,
        "token_token": (q @ k) * everywhere,
        "position_token": (p[0] @ k) * everywhere,
    }
    at = torch.arange(LENGTH)
    left = page.axes(1, 2, 1, grid="y")
    page.line(left, at, sum(parts.values(), 0 * everywhere), 0, linewidth=1.3)
    page.label(left, x="distance", y="product", title="sum")
    right = page.axes(1, 2, 2, grid="y", sharey=left)
    for style, (name, part) in enumerate(parts.items()):
        page.line(right, at, part, style, linewidth=1.3, label=page.say(name))
    page.label(right, x="distance", title="parts")
    page.legend(right, loc="upper right", bbox_to_anchor=(1.0, 1.0))
    return page.figure
