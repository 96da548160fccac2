import torch
from figures._page import Page
from figures._quarters import quarters
from matplotlib.figure import Figure

import posenc as pe
from posenc.analysis.plot.canvas import balanced

TEXTS = {
    "token_token": ("token-token", "词元对词元"),
    "token_position": ("token-position", "词元对位置"),
    "position_token": ("position-token", "位置对词元"),
    "position_position": ("position-position", "位置对位置"),
    "total": ("the sum: the score", "总和：得分"),
    "query": ("query", "查询"),
    "key": ("key", "键"),
    "score": ("score", "得分"),
}


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=4.2)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 24, 64, generator=generator)
    w_q, w_k = (torch.randn(2, 64, 1, 16, generator=generator) / 8).unbind()
    found = pe.decompose(x, pe.Sinusoidal(64), w_q, w_k)
    parts, total = {name: part[0, 0] for name, part in found.parts().items()}, found.total()[0, 0]
    limits = balanced(total, *parts.values())
    grid = page.figure.add_gridspec(2, 3, width_ratios=(1.0, 1.0, 1.15))
    quarters(page, grid, parts, limits)
    axes = page.axes(grid[:, 2])
    page.heat(axes, total, limits=limits, bar="score")
    axes.set_aspect("equal")
    page.label(axes, x="key", title="total")
    return page.figure
