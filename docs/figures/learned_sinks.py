import torch
from figures._page import Page
from matplotlib.figure import Figure
from torch import Tensor

import posenc as pe
from posenc.terms import DenseBias, SinkLogit

TEXTS = {
    "softmax": ("Softmax alone", "只有 softmax"),
    "first": ("A first token as the sink", "第一个词元为汇点"),
    "learned": ("A learned logit z", "可学习的 logit z"),
    "key": ("key", "键"),
    "query": ("query", "查询"),
}
LENGTH, LOGIT = 10, 3.0
# Queries that find what they look for, and the key that has it.
FOUND = {4: 2, 8: 5}


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=2.8)
    scores = 0.5 * torch.randn(LENGTH, LENGTH, generator=torch.Generator().manual_seed(0))
    for query, key in FOUND.items():
        scores[query, key] = 6.0
    beside = scores.clone()
    beside[:, 0] = LOGIT
    kept = weights(scores, SinkLogit(torch.full((1,), LOGIT)))
    rest = 1 - kept.sum(dim=1, keepdim=True)
    # A column is left free, for the sink is no key.
    learned = torch.cat((kept, torch.full_like(rest, torch.nan), rest), dim=1)
    parts = {"softmax": weights(scores), "first": weights(beside), "learned": learned}
    for place, (title, shares) in enumerate(parts.items()):
        axes = page.axes(1, 3, place + 1)
        hidden = torch.ones(LENGTH, LENGTH).triu(1) > 0
        shares[:, :LENGTH] = shares[:, :LENGTH].masked_fill(hidden, torch.nan)
        page.heat(axes, shares, palette="sequential", limits=(0.0, 1.0))
        page.label(axes, x="key", y="" if place else "query", title=title)
    keys = range(0, LENGTH, 2)
    axes.set_xticks([*keys, LENGTH + 1], [*map(str, keys), "z"])
    return page.figure


def weights(scores: Tensor, *terms: SinkLogit) -> Tensor:
    """What each query gives each key: the output of values that tell the keys apart."""
    empty, apart = torch.zeros(1, 1, LENGTH, 8), torch.eye(LENGTH)[None, None]
    return pe.attend(empty, empty, apart, [DenseBias(scores[None, None]), *terms], causal=True)[
        0, 0
    ]
