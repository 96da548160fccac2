import torch
from figures._page import Page
from figures._quarters import alone
from matplotlib.figure import Figure

import posenc as pe

TEXTS = {
    "token_token": ("(a) query, key", "(a) 查询与键"),
    "token_position": ("(b) query, distance", "(b) 查询与距离"),
    "position_token": ("(c) u, key", "(c) u 与键"),
    "position_position": ("(d) v, distance", "(d) v 与距离"),
    "query": ("query", "查询"),
    "key": ("key", "键"),
}


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=5.2)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(1)
        encoding = pe.TransformerXL(dim=32, heads=1, head_dim=16)
        # As large as queries are, so that all four can be seen on one scale.
        encoding.content_bias.normal_()
        encoding.position_bias.normal_()
        q, k = torch.randn(2, 1, 1, 24, 16).unbind()
        found = pe.decompose(q, k, encoding)
    alone(page, found)
    return page.figure
