import torch
from figures._page import Page
from matplotlib.figure import Figure

import posenc as pe
from posenc.analysis import measure

TEXTS = {
    "one": ("One token ahead", "向前一个词元"),
    "eight": ("Eight tokens ahead", "向前八个词元"),
    "residual": ("What no matrix explains", "矩阵解释不了的部分"),
    "step": ("step k, tokens", "步长 k，以词元计"),
    "pair": ("sine and cosine", "正弦和余弦"),
    "single": ("sines only", "只有正弦"),
    "triangle": ("triangle waves", "三角波"),
    "learned": ("table, untrained", "位置表，未训练"),
}
STEPS = (1, 2, 3, 5, 8, 13, 21, 34)


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=3.0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        learned = pe.Learned(8, 400)
    made = {
        "pair": pe.Sinusoidal(8, base=100.0),
        "single": pe.Waveform(8, pairing="single", base=100.0),
        "triangle": pe.Waveform(8, wave="triangle", base=100.0),
        "learned": learned,
    }
    tables = {name: measure.position_table(encoding, 400) for name, encoding in made.items()}
    places = page.figure.add_gridspec(1, 3, width_ratios=(1.0, 1.0, 1.4))
    for place, (title, step) in zip(places, {"one": 1, "eight": 8}.items(), strict=False):
        axes = page.axes(place)
        page.heat(axes, measure.shift(tables["pair"], step).matrix, limits=(-1.0, 1.0))
        axes.set_aspect("equal")
        axes.set_xticks([])
        axes.set_yticks([])
        page.label(axes, title=title)
    axes = page.axes(places[2], grid="y")
    for style, (name, table) in enumerate(tables.items()):
        left = torch.tensor([measure.shift(table, step).residual for step in STEPS])
        page.line(
            axes, torch.tensor(STEPS), left, style, marker=page.marker(style), markersize=4,
            label=page.say(name),
        )  # fmt: skip
    axes.set_yscale("log")
    axes.set_ylim(1e-16, 30)
    page.label(axes, x="step", title="residual")
    page.legend(axes, loc="center right", bbox_to_anchor=(1.0, 0.5))
    return page.figure
