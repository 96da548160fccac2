import torch
from figures._page import Page
from matplotlib.figure import Figure

import posenc as pe
from posenc import terms as t

TEXTS = {
    "rope": ("RoPE", "RoPE"),
    "gates": ("FoX", "FoX"),
    "turns": ("PaTH", "PaTH"),
    "key": ("key", "键"),
    "query": ("query", "查询"),
}
TURNS = torch.tensor([0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0.0])


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=2.7)
    length = len(TURNS)
    one = torch.tensor([1.0, 0.0]).expand(1, 1, length, 2)
    lost = (TURNS * -0.9).cumsum(0).view(1, 1, length)
    kinds = {
        "rope": pe.Rotary(2),
        "gates": t.Offset(lost, -lost),
        "turns": t.Householder(one, 2 * TURNS.view(1, 1, length)),
    }
    for place, (title, kind) in enumerate(kinds.items(), start=1):
        found = pe.scores(one, one, kind, causal=True, scale=1.0)[0, 0]
        found = found.exp() if title == "gates" else found
        shown = found / torch.e if title == "gates" else found
        shown = torch.where(found == -torch.inf, torch.nan, shown)
        shown = torch.where(torch.ones(length, length).triu(1) > 0, torch.nan, shown)
        axes = page.axes(1, 3, place)
        page.heat(axes, shown, palette="diverging", limits=(-1.0, 1.0))
        page.label(axes, x="key", y="query" if place == 1 else "", title=title)
    return page.figure
