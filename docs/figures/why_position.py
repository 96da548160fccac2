import torch
from figures._page import Page
from matplotlib.figure import Figure

import posenc as pe

TEXTS = {
    "words": ("the|dog|saw|the|cat", "大|狗|追|大|猫"),
    "plain": ("no position", "没有位置"),
    "plain_moved": ("no position, two words exchanged", "没有位置，两词对调"),
    "placed": ("with position", "加上位置"),
    "placed_moved": ("with position, two words exchanged", "加上位置，两词对调"),
}
EXCHANGED = [0, 4, 2, 3, 1]
LIMITS = (0.0, 0.7)


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=5.6)
    words = page.say("words").split("|")
    generator = torch.Generator().manual_seed(3)
    one_of_each = torch.randn(5, 16, generator=generator, dtype=torch.float64)
    # Equal words have equal embeddings.
    x = one_of_each[[words.index(word) for word in words]]
    w_q, w_k = torch.randn(2, 16, 16, generator=generator, dtype=torch.float64) / 4
    sinusoidal = pe.Sinusoidal(16)
    for place, title in enumerate(("plain", "plain_moved", "placed", "placed_moved")):
        order = EXCHANGED if "moved" in title else [0, 1, 2, 3, 4]
        read = x[order][None]
        if "placed" in title:
            read = sinusoidal.embed(read, None)
        weights = pe.scores((read @ w_q)[None], (read @ w_k)[None]).softmax(dim=-1)[0, 0]
        axes = page.axes(2, 2, place + 1)
        page.heat(axes, weights, palette="sequential", limits=LIMITS)
        names = [words[i] for i in order]
        axes.set_xticks(range(5), names, fontsize=9, **page.font())
        axes.set_yticks(range(5), names, fontsize=9, **page.font())
        page.numbers(axes, weights.tolist(), "sequential", LIMITS)
        page.label(axes, title=title)
    return page.figure
