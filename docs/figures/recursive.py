import torch
from figures._page import Page
from matplotlib.figure import Figure
from torch import Tensor

import posenc as pe
from posenc.analysis import measure

TEXTS = {
    "sinusoid": ("Sinusoid, one pair", "正弦，其中一对维度"),
    "recurrent": ("Recurrent, untrained", "Recurrent，未训练"),
    "floater": ("FLOATER, untrained", "FLOATER，未训练"),
    "first": ("first direction", "第一方向"),
    "second": ("second direction", "第二方向"),
    "trained": ("positions 0 to 63", "位置 0 到 63"),
    "beyond": ("64 to 127", "64 到 127"),
}
LENGTH, TRAINED, DIM, PAIR = 128, 64, 16, 3


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=2.9)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        made = {
            "recurrent": pe.Recurrent(DIM, LENGTH),
            "floater": pe.FLOATER(DIM, LENGTH),
        }
    waves = measure.position_table(pe.Sinusoidal(DIM), LENGTH)
    paths = {"sinusoid": waves[:, 2 * PAIR : 2 * PAIR + 2]}
    for name, encoding in made.items():
        paths[name] = widest(measure.position_table(encoding, LENGTH))
    for place, (name, path) in enumerate(paths.items(), start=1):
        axes = page.axes(1, 3, place)
        x, y = path.T
        parts = {"trained": (slice(0, TRAINED), 0, 3.4), "beyond": (slice(TRAINED, None), 1, 1.6)}
        for key, (part, style, size) in parts.items():
            page.line(
                axes, x[part], y[part], style, linestyle="solid", linewidth=0.5,
                marker=page.marker(style), markersize=size, label=page.say(key),
            )  # fmt: skip
        axes.set_xticks([])
        axes.set_yticks([])
        page.label(axes, x="first", y="second" if place == 1 else "", title=name)
        axes.margins(0.1)
        if place == 1:
            axes.set_aspect("equal", adjustable="datalim")
            page.legend(axes, loc="center left", bbox_to_anchor=(0.0, 0.5))
    return page.figure


def widest(table: Tensor) -> Tensor:
    """A path as it lies in the two directions in which it moves most."""
    centred = table - table.mean(dim=0)
    u, sizes, _ = torch.linalg.svd(centred, full_matrices=False)
    return u[:, :2] * sizes[:2]
