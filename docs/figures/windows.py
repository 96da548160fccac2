import torch
from figures._page import Page
from matplotlib.figure import Figure

import posenc as pe
from posenc.lowering import Lowerable

TEXTS = {
    "mask": ("One layer, W = 4", "一层，W = 4"),
    "sinks": ("The same, with 2 sinks", "同上，加 2 个汇点"),
    "field": ("Layers needed to reach", "传到所需的层数"),
    "key": ("key", "键"),
    "query": ("query", "查询"),
}
LENGTH, WIDTH, LAYERS = 20, 4, 4


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=2.7)
    window = pe.SlidingWindow(WIDTH)
    parts = {"mask": visible(window), "sinks": visible([window, pe.Sinks(2)])}
    for place, (title, seen) in enumerate(parts.items()):
        axes = page.axes(1, 3, place + 1)
        shown = torch.where(seen, 1.0, torch.nan)
        page.heat(axes, shown, palette="sequential", limits=(0.0, LAYERS))
        page.label(axes, x="key", y="" if place else "query", title=title)
    reached, needed = torch.eye(LENGTH), torch.full((LENGTH, LENGTH), torch.nan)
    for layer in range(1, LAYERS + 1):
        reached = reached @ parts["mask"].float()
        needed = torch.where(needed.isnan() & (reached > 0), float(layer), needed)
    axes = page.axes(1, 3, 3)
    page.heat(axes, needed, palette="sequential", limits=(0.0, LAYERS))
    page.label(axes, x="key", title="field")
    for layer in range(1, LAYERS + 1):
        column = LENGTH - 1.5 - (layer - 1) * (WIDTH - 1) - (1 if layer > 1 else 0)
        page.write(
            axes, str(layer), (column, LENGTH - 1), ha="center", va="center", color=page.theme.paper
        )
    return page.figure


def visible(rules: Lowerable) -> torch.Tensor:
    empty = torch.zeros(1, 1, LENGTH, 8)
    return pe.scores(empty, empty, rules, causal=True)[0, 0] > -torch.inf
