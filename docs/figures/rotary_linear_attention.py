import torch
import torch.nn.functional as F
from figures._page import Page
from matplotlib.figure import Figure

import posenc as pe

TEXTS = {
    "plain": ("Without position", "不带位置"),
    "turned": ("RoPE in the numerator", "分子带 RoPE"),
    "key": ("key", "键"),
    "query": ("query", "查询"),
    "weight": ("weight, relative to the row", "权重，相对于本行"),
}
LENGTH, DIM = 48, 16


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=3.0)
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 1, 1, LENGTH, DIM, generator=generator, dtype=torch.float64).unbind()
    q, k = F.elu(q) + 1, F.elu(k) + 1
    plain = (q @ k.mT)[0, 0]
    turned_q, turned_k = pe.rotate(q, k, pe.Rotary(DIM, base=100.0))
    turned = (turned_q @ turned_k.mT)[0, 0]
    hidden = torch.ones(LENGTH, LENGTH).triu(1).bool()
    # Weights fall as rows grow; times the number of keys, every row is as visible.
    size = torch.arange(1, LENGTH + 1)[:, None] / plain.tril().sum(dim=-1, keepdim=True)
    for place, (title, weights) in enumerate({"plain": plain, "turned": turned}.items()):
        axes = page.axes(1, 2, place + 1)
        shown = (weights * size).masked_fill(hidden, torch.nan)
        page.heat(axes, shown, limits=(-2.0, 2.0), bar="weight" if place else "")
        page.label(axes, x="key", y="" if place else "query", title=title)
    return page.figure
