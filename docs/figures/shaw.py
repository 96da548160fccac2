import torch
from figures._page import Page
from matplotlib.figure import Figure

import posenc as pe

TEXTS = {
    "rows": ("Clipped distance of each pair", "每一对的截断距离"),
    "added": ("What three queries get from one table", "三个查询从同一张表得到的值"),
    "query": ("query", "查询"),
    "key": ("key", "键"),
    "distance": ("distance, key - query", "距离，键减查询"),
    "score": ("added to the score", "加到得分上的值"),
    "clipped": ("clipped", "截断"),
    "one": ("query {number}", "查询 {number}"),
}
CLIP, LENGTH = 4, 25


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=3.1)
    left, right = page.figure.add_gridspec(1, 2, width_ratios=(1.0, 1.25))
    at = torch.arange(LENGTH)
    distance = (at[None, :] - at[:, None]).clamp(-CLIP, CLIP)
    axes = page.axes(left)
    page.heat(axes, distance.double(), bar="clipped")
    axes.set_aspect("equal")
    page.label(axes, x="key", y="query", title="rows")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        shaw = pe.Shaw(dim=16, clip=CLIP)
        # One query for each head, since heads share the table; keys of 0 leave position alone.
        q = torch.randn(1, 3, 1, 16).expand(-1, -1, LENGTH, -1)
    middle = LENGTH // 2
    added = pe.scores(q, torch.zeros_like(q), shaw)[0, :, middle].detach()
    axes = page.axes(right, grid="y")
    for style, curve in enumerate(added):
        page.line(
            axes, at - middle, curve, style, marker=page.marker(style), markersize=3,
            label=page.say("one", number=style + 1),
        )  # fmt: skip
    for edge in (-CLIP, CLIP):
        axes.axvline(edge, color=page.theme.muted, linewidth=0.8, linestyle=(0, (2, 2)))
    page.whole(axes.xaxis)
    page.label(axes, x="distance", y="score", title="added")
    page.legend(axes, loc="best", bbox_to_anchor=None)
    return page.figure
