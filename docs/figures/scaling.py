import torch
from figures._page import Page
from matplotlib.figure import Figure

import posenc as pe
from posenc.analysis import measure

TEXTS = {
    "pair": ("pair", "维度对"),
    "tokens": ("wavelength, tokens", "波长，以词元计"),
    "trained": ("trained on 4096 tokens", "训练长度 4096"),
    "longer": ("8 times as many", "八倍长度"),
    "plain": ("as trained", "不缩放"),
    "linear": ("linear", "线性"),
    "ntk": ("NTK", "NTK"),
    "yarn": ("YaRN", "YaRN"),
    "llama": ("Llama 3", "Llama 3"),
    "base": ("base 500,000", "基数 500,000"),
}
TRAINED, FACTOR = 4096, 8


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=3.3)
    rotary = {
        "plain": pe.Rotary(64),
        "linear": pe.Rotary(64, scaling=pe.Linear(FACTOR)),
        "ntk": pe.Rotary(64, scaling=pe.NTK(FACTOR)),
        "yarn": pe.Rotary(64, scaling=pe.YaRN(FACTOR, TRAINED)),
        "llama": pe.Rotary(64, scaling=pe.Llama3(FACTOR, 1.0, 4.0, TRAINED)),
        "base": pe.Rotary(64, base=500_000.0),
    }
    axes = page.axes(grid="y")
    for style, (name, encoding) in enumerate(rotary.items()):
        tokens = measure.wavelengths(measure.frequencies(encoding))[0]
        page.line(axes, torch.arange(32), tokens, style, label=page.say(name))
    for key, length in (("trained", TRAINED), ("longer", TRAINED * FACTOR)):
        axes.axhline(length, color=page.theme.ink, linestyle="dashed", linewidth=0.9)
        page.write(axes, page.say(key), (0, length * 1.12), va="bottom")
    axes.set_yscale("log")
    page.label(axes, x="pair", y="tokens")
    page.legend(axes)
    return page.figure
