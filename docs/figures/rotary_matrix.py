import torch
from figures._page import Page
from matplotlib.figure import Figure
from torch import Tensor

import posenc as pe
from posenc.terms import Layout

TEXTS = {
    "interleaved": ("Interleaved: pairs (2i, 2i + 1)", "交错布局：(2i, 2i + 1) 为一对"),
    "half": ("Half: pairs (i, i + d/2)", "两半布局：(i, i + d/2) 为一对"),
    "value": ("value", "取值"),
}
DIM, POSITION = 16, 3


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=3.1)
    layouts: tuple[Layout, ...] = ("interleaved", "half")
    for place, layout in enumerate(layouts):
        axes = page.axes(1, 2, place + 1)
        page.heat(axes, matrix(layout), limits=(-1.0, 1.0), bar="value" if place else "")
        axes.set_aspect("equal")
        page.label(axes, title=layout)
    return page.figure


def matrix(layout: Layout) -> Tensor:
    basis = torch.eye(DIM, dtype=torch.float64)[None, None]
    at = torch.full((DIM,), POSITION)
    return pe.rotate(basis, basis, pe.Rotary(DIM, layout=layout), positions=at)[0][0, 0].T
