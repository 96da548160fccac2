import torch
from figures._page import Page
from matplotlib.figure import Figure

import posenc as pe
from posenc.analysis import measure

TEXTS = {
    "position": ("position", "位置"),
    "dimension": ("dimension", "维度"),
    "pair": ("pair {pair}: a turn in {turn:.0f} tokens", "第 {pair} 对：{turn:.0f} 个词元转一圈"),
}
PAIRS = (0, 6, 14)


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=4.0)
    made = pe.Sinusoidal(64)
    table = measure.position_table(made, 64)
    turns = measure.wavelengths(made.frequencies())
    whole, parts = page.figure.add_gridspec(1, 2, width_ratios=(1.15, 1.0))
    axes = page.axes(whole)
    page.heat(axes, table, limits=(-1.0, 1.0))
    page.label(axes, x="dimension", y="position")
    for pair, place in zip(PAIRS, parts.subgridspec(len(PAIRS), 1), strict=True):
        axes = page.axes(place, grid="y")
        page.line(axes, torch.arange(64), table[:, 2 * pair], 0, linestyle="solid")
        page.line(axes, torch.arange(64), table[:, 2 * pair + 1], 1)
        axes.set_ylim(-1.15, 1.15)
        page.whole(axes.xaxis)
        page.label(axes, title="pair", pair=pair, turn=turns[pair].item())
        if pair == PAIRS[-1]:
            page.label(axes, x="position")
    return page.figure
