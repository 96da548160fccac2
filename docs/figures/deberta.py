import torch
from figures._page import Page
from figures._quarters import alone
from matplotlib.figure import Figure

import posenc as pe

TEXTS = {
    "token_token": ("c2c: query, key", "c2c：查询与键"),
    "token_position": ("c2p: query, distance", "c2p：查询与距离"),
    "position_token": ("p2c: distance, key", "p2c：距离与键"),
    "position_position": ("left out", "删去"),
    "query": ("query", "查询"),
    "key": ("key", "键"),
}


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=5.2)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        encoding = pe.DeBERTa(32, heads=1, span=24, head_dim=16, projections="own")
        # Smooth, so that patterns can be seen, and as large as queries are.
        steps = torch.randn(48, 32).cumsum(dim=0)
        encoding.weight.copy_(steps / steps.std(dim=0))
        q, k = torch.randn(2, 1, 1, 24, 16).unbind()
        found = pe.decompose(q, k, encoding)
    alone(page, found)
    return page.figure
