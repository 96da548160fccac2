import torch
from figures._page import Page
from matplotlib.figure import Figure

import posenc as pe
from posenc.analysis import measure

TEXTS = {
    "plain": ("No projection", "没有投影"),
    "random": ("Random projections", "随机投影"),
    "step": ("A step of four tokens", "平移四个词元"),
    "query": ("query", "查询"),
    "key": ("key", "键"),
    "row": ("row of query 24", "查询 24 的一行"),
}
LENGTH, QUERY, STEP = 48, 24, 4


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=4.4)
    table = measure.position_table(pe.Sinusoidal(32), LENGTH + STEP)
    generator = torch.Generator().manual_seed(1)
    w_q, w_k = torch.randn(2, 32, 32, generator=generator, dtype=torch.float64).unbind()
    here, ahead = table[:LENGTH], table[STEP:]
    made = {
        "plain": measure.inner_products(here),
        "random": measure.inner_products(here, w_q, w_k),
        "step": here @ ahead.T,
    }
    places = page.figure.add_gridspec(2, 3, height_ratios=(1.6, 1.0))
    for column, (name, products) in enumerate(made.items()):
        axes = page.axes(places[0, column])
        page.heat(axes, products)
        axes.set_aspect("equal")
        page.label(axes, y="" if column else "query", title=name)
        axes = page.axes(places[1, column], grid="y")
        page.line(axes, torch.arange(LENGTH), products[QUERY], 0)
        axes.axvline(QUERY, color=page.theme.muted, linestyle="dashed", linewidth=1.0)
        page.label(axes, x="key", y="" if column else "row")
    return page.figure
