import torch
import torch.nn.functional as F
from figures._page import Page
from matplotlib.figure import Figure
from torch import Tensor

import posenc as pe

TEXTS = {
    "weights": ("Attention weights: look one back", "注意力权重：看前一个词元"),
    "table": ("The table", "位置表"),
    "query": ("query", "查询"),
    "key": ("key", "键"),
    "position": ("position", "位置"),
    "dimension": ("dimension", "维度"),
    "trained": ("trained", "训练过"),
    "fresh": ("as drawn", "仍是初值"),
}
ROWS, TRAINED, DIM = 96, 64, 32


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=3.6)
    table, weights = trained_head()
    left, right = page.figure.add_gridspec(1, 2, width_ratios=(1.7, 1.0))
    edge = {"color": page.theme.ink, "linewidth": 0.9, "linestyle": (0, (4, 2))}
    axes = page.axes(left)
    page.heat(axes, weights, palette="sequential", limits=(0.0, 1.0))
    axes.set_aspect("equal")
    axes.axhline(TRAINED - 0.5, **edge)
    axes.axvline(TRAINED - 0.5, **edge)
    page.label(axes, x="key", y="query", title="weights")
    axes = page.axes(right)
    page.heat(axes, table)
    axes.axhline(TRAINED - 0.5, **edge)
    beside = {"rotation": 90, "ha": "left", "va": "center"}
    page.write(axes, page.say("trained"), (DIM, TRAINED / 2), **beside)
    page.write(axes, page.say("fresh"), (DIM, (ROWS + TRAINED) / 2), **beside)
    page.label(axes, x="dimension", y="position", title="table")
    return page.figure


def trained_head() -> tuple[Tensor, Tensor]:
    """A table, and the weights of a head that learned, on its first rows, to look one back."""
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(0)
        encoding = pe.Learned(DIM, ROWS)
        query, key = (torch.nn.Linear(DIM, DIM, bias=False) for _ in range(2))
        parameters = [*encoding.parameters(), *query.parameters(), *key.parameters()]
        optimizer = torch.optim.Adam(parameters, lr=1e-2)

        def scores(length: int) -> Tensor:
            x = encoding.embed(torch.zeros(1, length, DIM), None)
            return pe.scores(query(x)[None], key(x)[None])[0, 0]

        before = torch.arange(TRAINED - 1)
        for _ in range(200):
            loss = F.cross_entropy(scores(TRAINED)[1:], before)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return encoding.weight.detach(), scores(ROWS).softmax(dim=-1).detach()
