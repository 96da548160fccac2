from typing import Any

import torch
from figures._page import Page
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from torch import Tensor

import posenc as pe

TEXTS = {
    "kinds": ("Layers, from the first on", "各层，从第一层起"),
    "layer": ("layer", "层"),
    "near": ("window or chunk, RoPE", "窗口或分块，RoPE"),
    "all": ("sees all, RoPE", "看全部，RoPE"),
    "bare": ("sees all, no position", "看全部，无位置"),
    "caches": ("Caches, GiB", "缓存，GiB"),
    "tokens": ("tokens", "词元"),
}
SHOWN = 12
NAMES = {
    "smollm3": "SmolLM3",
    "cohere2": "Command R7B",
    "llama4": "Llama 4",
    "gemma3": "Gemma 3",
    "modernbert": "ModernBERT",
    "gpt_oss": "gpt-oss",
}
# Layers, key heads and dimensions of a head, of the models with these names.
SIZES = {
    "gemma3": ("Gemma 3 27B", 62, 16, 128),
    "cohere2": ("Command R7B", 32, 8, 128),
    "gpt_oss": ("gpt-oss 20B", 24, 8, 64),
}


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=3.2)
    grid = page.figure.add_gridspec(1, 2, width_ratios=(1.15, 1.0))
    kinds(page, page.axes(grid[0]))
    caches(page, page.axes(grid[1], grid="both"))
    return page.figure


def kinds(page: Page, axes: Any) -> None:
    colours = dict(zip(("near", "all", "bare"), page.theme.lines, strict=False))
    rows = [[colours[kind_of(parts)] for parts in pe.layers(name, SHOWN)] for name in NAMES]
    axes.imshow([[to_rgb(colour) for colour in row] for row in rows], aspect="auto")
    for edge in range(1, SHOWN):
        axes.axvline(edge - 0.5, color=page.theme.paper, linewidth=1.5)
    for edge in range(1, len(NAMES)):
        axes.axhline(edge - 0.5, color=page.theme.paper, linewidth=4.0)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.set_yticks(range(len(NAMES)), list(NAMES.values()), **page.font())
    axes.set_xticks(range(0, SHOWN, 2))
    page.label(axes, x="layer", title="kinds")
    drawn = [Patch(color=colour, label=page.say(name)) for name, colour in colours.items()]
    below = {"loc": "upper center", "bbox_to_anchor": (0.42, -0.2), "handlelength": 1.0}
    page.legend(axes, **below, handles=drawn, ncols=2, columnspacing=1.0)


def kind_of(parts: list[Any]) -> str:
    names = {part.name for part in parts}
    if names & {"window", "chunked"}:
        return "near"
    return "all" if "rotary" in names else "bare"


def caches(page: Page, axes: Any) -> None:
    tokens = 2.0 ** torch.arange(7, 18)
    for style, (name, (label, depth, heads, dim)) in enumerate(SIZES.items()):
        bytes_per_token = 2 * heads * dim * 2
        held = sum(kept(cache, tokens) for cache in pe.layers(name, depth).caches())
        colour = {"color": page.theme.lines[style], "linestyle": "solid"}
        page.line(axes, tokens, held * bytes_per_token / 2**30, label=label, **colour)
        colour["linestyle"] = "dashed"
        page.line(axes, tokens, depth * tokens * bytes_per_token / 2**30, **colour, linewidth=1.0)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks([2**7, 2**10, 2**13, 2**17], ["128", "1,024", "8,192", "131,072"])
    page.label(axes, x="tokens", title="caches")
    page.legend(axes, loc="upper left", bbox_to_anchor=(0.02, 1.0))


def kept(cache: pe.Cache, tokens: Tensor) -> Tensor:
    if isinstance(cache, pe.RollingCache):
        return tokens.clamp(max=cache.chunk or (cache.window or 1) - 1)
    return tokens
