import torch
from figures._page import Page
from matplotlib.figure import Figure

import posenc as pe
from posenc.analysis import measure

TEXTS = {
    "random": ("Random: 32 rows kept, the others drawn", "随机：保留 32 行，其余重新抽取"),
    "interpolate": ("Interpolate: 32 rows spread over 128", "插值：32 行摊到 128 行"),
    "hierarchical": ("Hierarchical: rows made of two digits", "层次分解：每行由两个数位合成"),
    "position": ("position", "位置"),
    "dimension": ("dimension", "维度"),
}
ROWS, LENGTH, DIM = 32, 128, 32


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=5.4)
    waves = measure.position_table(pe.Sinusoidal(DIM, base=100.0), ROWS)
    # As large as rows that are drawn afresh.
    table = pe.Learned.from_rows(0.03 * waves.float())
    for place, method in enumerate(("random", "interpolate", "hierarchical"), start=1):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            longer = table.extended(LENGTH, method).weight.detach()
        axes = page.axes(3, 1, place)
        page.heat(axes, longer.T, limits=(-0.07, 0.07))
        axes.axvline(ROWS - 0.5, color=page.theme.ink, linewidth=0.9, linestyle=(0, (4, 2)))
        page.label(axes, x="position" if place == 3 else "", y="dimension", title=method)
    return page.figure
