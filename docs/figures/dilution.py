import math

import torch
from figures._page import Page
from matplotlib.figure import Figure
from torch import Tensor

import posenc as pe
from posenc.lowering import Lowerable

TEXTS = {
    "length": ("keys", "键数"),
    "effective": ("effective keys", "有效键数"),
    "weak": ("Scores with σ² = 1", "得分的 σ² = 1"),
    "strong": ("Scores with σ² = 4", "得分的 σ² = 4"),
    "formula": ("n exp(-σ²/2)", "n exp(-σ²/2)"),
    "fixed": ("fixed temperature", "不缩放"),
    "log_n": ("log-length scale", "对数缩放"),
    "window": ("window 64", "窗口 64"),
    "steep": ("ALiBi, slope 1/4", "ALiBi，斜率 1/4"),
    "shallow": ("ALiBi, slope 1/256", "ALiBi，斜率 1/256"),
}
LENGTHS = (64, 256, 1024, 4096)
DIM, BATCH = 64, 48


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=3.2)
    remedies: dict[str, Lowerable] = {
        "fixed": [],
        "log_n": pe.Temperature("log_n", original_length=LENGTHS[0]),
        "window": pe.SlidingWindow(64),
        "shallow": pe.ALiBi(1),
        "steep": pe.ALiBi(4),
    }
    lengths = torch.tensor(LENGTHS)
    for column, (title, sigma) in enumerate({"weak": 1.0, "strong": 2.0}.items()):
        axes = page.axes(1, 2, column + 1, grid="y")
        page.line(
            axes,
            lengths,
            lengths * math.exp(-(sigma**2) / 2),
            color=page.theme.muted,
            linestyle="dotted",
            label=page.say("formula"),
        )
        for style, (name, encoding) in enumerate(remedies.items()):
            keys = torch.stack([effective(encoding, sigma, length) for length in LENGTHS])
            page.line(axes, lengths, keys, style, label=page.say(name))
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_ylim(2.0, 4096.0)
        axes.set_xticks(LENGTHS, [str(length) for length in LENGTHS])
        axes.minorticks_off()
        page.label(axes, x="length", y="" if column else "effective", title=title)
    page.legend(axes)
    return page.figure


def effective(encoding: Lowerable, sigma: float, length: int) -> Tensor:
    """exp of the entropy of the last query's weights in its first head, over a batch."""
    heads = encoding.heads or 1 if isinstance(encoding, pe.Encoding) else 1
    generator = torch.Generator().manual_seed(0)
    q = sigma * torch.randn(BATCH, 1, 1, DIM, generator=generator).expand(-1, heads, -1, -1)
    k = torch.randn(length, DIM, generator=generator).expand(BATCH, heads, -1, -1)
    weights = pe.scores(q, k, encoding, causal=True)[:, 0].softmax(dim=-1)
    return torch.special.entr(weights).sum(dim=-1).exp().mean()
