import torch
from figures._page import Page
from matplotlib.figure import Figure

import posenc as pe

TEXTS = {
    "add": ("x + p", "x + p"),
    "multiply": ("x (1 + p)", "x (1 + p)"),
    "hadamard": ("x p", "x p"),
    "position": ("position", "位置"),
    "value": ("one dimension", "一个维度的取值"),
    "token": ("x = {token}", "x = {token}"),
}
TOKENS, LENGTH, DIM, SHOWN = (0.0, 0.5, 1.0, 1.5), 64, 16, 2


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=2.9)
    x = torch.tensor(TOKENS)[:, None, None].expand(-1, LENGTH, DIM)
    for place, merge in enumerate(("add", "multiply", "hadamard"), start=1):
        axes = page.axes(1, 3, place, grid="y")
        placed = pe.Sinusoidal(DIM, merge=merge).embed(x, None)[..., SHOWN]
        for style, (token, wave) in enumerate(zip(TOKENS, placed, strict=True)):
            page.line(
                axes, torch.arange(LENGTH), wave, style, label=page.say("token", token=f"{token:g}")
            )
        axes.set_ylim(-1.7, 3.2)
        page.label(axes, x="position", y="value" if place == 1 else "", title=merge)
    page.legend(axes)
    return page.figure
