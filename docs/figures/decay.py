import math

import torch
from figures._page import Page
from matplotlib.figure import Figure

import posenc as pe
from posenc.analysis import measure

TEXTS = {
    "width": ("d = {width}", "d = {width}"),
    "distance": ("distance k", "距离 k"),
    "product": ("inner product", "内积"),
    "curve": ("sum of cosines", "余弦之和"),
    "envelope": ("envelope", "包络"),
    "line": ("logarithm of k", "k 的对数"),
}


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=3.3)
    at = torch.arange(4096)
    for place, width in enumerate((64, 512)):
        axes = page.axes(1, 2, place + 1, grid="y")
        curve = measure.cosine_sum(pe.Sinusoidal(width).frequencies(), at)
        found = measure.decay(curve)
        # A logarithmic axis has no place for distance 0.
        x = at[1:]
        page.line(axes, x, curve[1:], 0, linewidth=1.1, label=page.say("curve"))
        faint = {"color": page.theme.muted, "linewidth": 0.9, "linestyle": "solid"}
        page.line(axes, x, found.upper[1:], label=page.say("envelope"), **faint)
        line = width / 2 * (1 - (x.double().log() + 0.5772) / math.log(10_000))
        page.line(axes, x, line, 1, label=page.say("line"))
        axes.set_xscale("log")
        page.label(axes, x="distance", y="" if place else "product", title="width", width=width)
    page.legend(axes, loc="upper right", bbox_to_anchor=(1.0, 1.0))
    return page.figure
