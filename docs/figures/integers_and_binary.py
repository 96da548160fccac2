import math

import torch
from figures._page import Page
from matplotlib.figure import Figure

import posenc as pe
from posenc.analysis import measure

TEXTS = {
    "position": ("position", "位置"),
    "waves": ("Digits, and smooth waves of the same periods", "二进制各位，以及同周期的平滑波"),
    "digit": ("digit {digit}", "第 {digit} 位"),
    "steps": ("Distance to the next position", "到下一个位置的距离"),
    "binary": ("binary digits", "二进制"),
    "sinusoidal": ("sinusoids", "正弦位置编码"),
}
DIGITS, LENGTH = 4, 32


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=5.0)
    upper, lower = page.figure.add_gridspec(2, 1, height_ratios=(1.6, 1.0))
    axes = page.axes(upper)
    at = torch.arange(-0.5, LENGTH - 0.5, 0.02, dtype=torch.float64)
    digits = measure.position_table(pe.Binary(DIGITS), 2**DIGITS)
    held = (at + 0.5).floor().long() % 2**DIGITS
    for i in range(DIGITS):
        page.line(axes, at, 1.3 * i + digits[held, i], 0, linewidth=1.3)
        # A digit is 0 for the first half of its period, as minus a sine is below its mean.
        wave = 0.5 - 0.5 * (2 * math.pi * (at + 0.5) / 2 ** (i + 1)).sin()
        page.line(axes, at, 1.3 * i + wave, 1, linewidth=1.3, linestyle="solid")
    axes.set_yticks(
        [1.3 * i + 0.5 for i in range(DIGITS)], [page.say("digit", digit=i) for i in range(DIGITS)]
    )
    page.ticks(axes)
    page.whole(axes.xaxis)
    page.label(axes, x="position", title="waves")
    axes = page.axes(lower, grid="y")
    for style, made in enumerate((pe.Binary(DIGITS + 1), pe.Sinusoidal(2 * DIGITS))):
        steps = measure.resolution(measure.position_table(made, LENGTH))
        page.line(
            axes, torch.arange(LENGTH - 1), steps, style, marker=page.marker(style),
            markersize=4, linewidth=0.9, label=page.say(made.name),
        )  # fmt: skip
    axes.set_ylim(0, 2.5)
    page.whole(axes.xaxis)
    page.label(axes, x="position", title="steps")
    page.legend(axes)
    return page.figure
