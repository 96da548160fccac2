from collections.abc import Callable

import torch
import torch.nn.functional as F
from figures._page import Page
from matplotlib.figure import Figure
from torch import Tensor, nn

import posenc as pe

TEXTS = {
    "within": ("Other positions below 64", "64 以内，其余的位置"),
    "beyond": ("Positions 64 to 127", "位置 64 到 127"),
    "queries": ("trained queries", "训练过的查询数"),
    "right": ("share that look one back", "读对前一词的比例"),
    "learned": ("learned table", "可学习的表"),
    "sinusoidal": ("sinusoid", "正弦"),
    "t5": ("T5", "T5"),
    "rotary": ("RoPE", "RoPE"),
}
DIM, TRAINED, LENGTH = 32, 64, 128
QUERIES = (4, 16, 32, 48)
ENCODINGS: dict[str, Callable[[], pe.Encoding]] = {
    "learned": lambda: pe.Learned(DIM, LENGTH),
    "sinusoidal": lambda: pe.Sinusoidal(DIM),
    "t5": lambda: pe.T5Bias(1),
    "rotary": lambda: pe.Rotary(DIM),
}


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=2.9)
    shares = {name: measured(make) for name, make in ENCODINGS.items()}
    for column, title in enumerate(("within", "beyond")):
        axes = page.axes(1, 2, column + 1, grid="y")
        for style, (name, share) in enumerate(shares.items()):
            # T5 lies on RoPE, and shows around it.
            size = 9 if name == "t5" else 5
            look = {"marker": page.marker(style), "markersize": size, "label": page.say(name)}
            page.line(axes, torch.tensor(QUERIES), share[:, column], style, **look)
        axes.set_ylim(-0.06, 1.06)
        axes.set_xticks(QUERIES)
        page.label(axes, x="queries", y="" if column else "right", title=title)
    page.legend(axes)
    return page.figure


def measured(make: Callable[[], pe.Encoding]) -> Tensor:
    """The shares of `look_one_back`, a row for each number of queries."""
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(0)
        order = 1 + torch.randperm(TRAINED - 1)
        return torch.stack([look_one_back(make(), order[:count]) for count in QUERIES])


def look_one_back(encoding: pe.Encoding, trained: Tensor) -> Tensor:
    """What share of untrained queries finds the token before it: below 64, and from 64 on."""
    word = nn.Parameter(torch.randn(DIM))
    query, key = (nn.Linear(DIM, DIM, bias=False) for _ in range(2))
    inside = None if encoding.family == "absolute" else encoding

    def scores(length: int) -> Tensor:
        x = encoding.embed(word.expand(1, length, -1), None)
        return pe.scores(query(x)[:, None], key(x)[:, None], inside, causal=True)[0, 0]

    parameters = [word, *query.parameters(), *key.parameters(), *encoding.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=0.05)
    for _ in range(60):
        loss = F.cross_entropy(scores(TRAINED)[trained], trained - 1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    right = (scores(LENGTH).argmax(dim=-1) == torch.arange(LENGTH) - 1).float()
    other = torch.ones(TRAINED, dtype=torch.bool)
    other[trained] = other[0] = False
    return torch.stack([right[:TRAINED][other].mean(), right[TRAINED:].mean()]).detach()
