import torch
from figures._page import Page
from matplotlib.figure import Figure

import posenc as pe
from posenc.analysis import measure

TEXTS = {
    "ordinal": ("integers", "整数"),
    "binary": ("binary digits", "二进制"),
    "learned": ("table, untrained", "位置表，未训练"),
    "sinusoidal": ("sinusoids", "正弦位置编码"),
    "position": ("position", "位置"),
}


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=6.0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        learned = pe.Learned(64, 48)
    made = (pe.Ordinal(), pe.Binary(6), learned, pe.Sinusoidal(64))
    for place, encoding in enumerate(made):
        products = measure.inner_products(measure.position_table(encoding, 48))
        axes = page.axes(2, 2, place + 1)
        page.heat(axes, products)
        axes.set_aspect("equal")
        axes.set_xticks([0, 20, 40])
        axes.set_yticks([0, 20, 40])
        below, right = divmod(place, 2)
        x, y = "position" if below else "", "" if right else "position"
        page.label(axes, x=x, y=y, title=encoding.name)
    return page.figure
