import torch
from figures._page import Page
from matplotlib.figure import Figure

import posenc as pe

TEXTS = {
    "matrix": ("Bias of head 3 (slope 1/8)", "第 3 头的偏置（斜率 1/8）"),
    "curves": ("Bias of each head", "每个头的偏置"),
    "key": ("key", "键"),
    "query": ("query", "查询"),
    "back": ("tokens back", "键在查询之前的词元数"),
}
LENGTH = 32


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=3.0)
    places = page.figure.add_gridspec(1, 2, width_ratios=(1.0, 1.1))
    empty = torch.zeros(1, 8, LENGTH, 8)
    alibi = pe.ALiBi(8)
    bias = pe.scores(empty, empty, alibi, causal=True)[0]
    axes = page.axes(places[0])
    page.heat(axes, bias[2], limits=(-4.0, 4.0))
    page.label(axes, x="key", y="query", title="matrix")
    axes = page.axes(places[1], grid="y")
    for head, slope in enumerate(alibi.slope_values()):
        name = f"1/{round(1 / slope)}"
        page.line(axes, torch.arange(LENGTH), bias[head, -1].flip(-1), head, label=name)
    page.label(axes, x="back", title="curves")
    page.legend(axes)
    return page.figure
