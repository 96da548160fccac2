import torch
from figures._page import Page
from matplotlib.figure import Figure

import posenc as pe
from posenc.analysis import measure

TEXTS = {
    "pair": ("pair", "维度对"),
    "wavelength": ("Wavelength, tokens", "波长，以词元计"),
    "product": ("Inner product / (d / 2)", "内积 / (d / 2)"),
    "distance": ("distance", "距离"),
    "base": ("base {base:,.0f}", "基数 {base:,.0f}"),
    "trained": ("training length 512", "训练长度 512"),
}
BASES = (100.0, 10_000.0, 1_000_000.0)


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=3.3)
    waves, products = page.axes(1, 2, 1, grid="y"), page.axes(1, 2, 2, grid="y")
    at = torch.arange(1, 4097)
    for style, base in enumerate(BASES):
        f = pe.Sinusoidal(64, base=base).frequencies()
        page.line(
            waves,
            torch.arange(32),
            measure.wavelengths(f),
            style,
            label=page.say("base", base=base),
        )
        page.line(products, at, measure.cosine_sum(f, at) / 32, style, linewidth=1.2)
    waves.set_yscale("log")
    waves.axhline(512, color=page.theme.ink, linestyle="dashed", linewidth=1.0)
    page.write(waves, page.say("trained"), (31, 560), ha="right", va="bottom")
    page.label(waves, x="pair", title="wavelength")
    page.legend(waves, bbox_to_anchor=(0.0, 1.0))
    products.set_xscale("log")
    page.label(products, x="distance", title="product")
    return page.figure
