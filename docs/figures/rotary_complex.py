import math

import torch
from figures._page import Page
from matplotlib.figure import Figure

import posenc as pe

TEXTS = {
    "pair": (
        "Pair {pair}: {speed:.3g} rad a token",
        "第 {pair} 对：每个词元 {speed:.3g} 弧度",
    ),
}
LAST, START = 8, 0.4


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=2.5)
    speeds = pe.Rotary(8).frequencies()
    turn = torch.linspace(0, 2 * math.pi, 200)
    positions = torch.arange(LAST + 1)
    for pair in range(3):
        axes, speed = page.axes(1, 3, pair + 1), float(speeds[pair])
        axes.plot(turn.cos().numpy(), turn.sin().numpy(), color=page.theme.grid, linewidth=1.0)
        way = torch.polar(torch.ones(300), START + torch.linspace(0, LAST * speed, 300))
        page.line(axes, way.real, way.imag, pair, linewidth=1.2, linestyle="solid")
        z = torch.polar(torch.ones(LAST + 1), START + positions * speed)
        colour = page.theme.lines[pair]
        axes.plot(z.real.numpy(), z.imag.numpy(), page.marker(pair), color=colour, markersize=4.5)
        # Where nine numbers would cover each other, the ends alone are named, or all at once.
        named = {m: str(m) for m in (positions.tolist() if speed > 0.3 else (0, LAST))}
        for m, text in named.items() if speed > 0.03 else [(LAST // 2, f"0 - {LAST}")]:
            at = (1.2 if speed > 0.03 else 1.3) * z[m]
            page.write(axes, text, (float(at.real), float(at.imag)), ha="center", va="center")
        axes.set_aspect("equal")
        axes.set(xlim=(-1.35, 1.35), ylim=(-1.35, 1.35))
        axes.set_axis_off()
        page.label(axes, title="pair", pair=pair, speed=speed)
    return page.figure
