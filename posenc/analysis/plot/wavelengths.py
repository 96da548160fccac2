"""How many tokens each pair needs for a turn, against the length of training."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from posenc.analysis import measure
from posenc.analysis.plot.canvas import Canvas
from posenc.analysis.plot.labels import Language
from posenc.analysis.plot.style import ThemeName
from posenc.encoding import Encoding
from posenc.encodings.rotary import Rotary
from posenc.encodings.scaling import (
    NTK,
    DynamicNTK,
    Linear,
    Llama3,
    LongRoPE,
    Proportional,
    Scaling,
    YaRN,
)
from posenc.errors import SettingError

if TYPE_CHECKING:
    import matplotlib.figure

MOST = 12


def wavelengths(
    encodings: Mapping[str, Encoding],
    trained: int = 4096,
    length: int | None = None,
    *,
    theme: ThemeName = "light",
    language: Language = "en",
) -> "matplotlib.figure.Figure":
    """Wavelengths of all pairs of several rotary encodings, by name, over the trained length.

    length is that of the input, where a scaling reads it (None: 8 * trained). A pair above the
    line turned less than once in training. Pairs that do not turn stand at the upper edge. Raises
    SettingError for a length below 1, and for no encodings or more than 12.
    """
    length = 8 * trained if length is None else length
    if trained < 1 or length < 1:
        raise SettingError(f"wavelengths(trained={trained}, length={length}): at least 1 is needed")
    if not 1 <= len(encodings) <= MOST:
        raise SettingError(f"wavelengths of {len(encodings)} encodings: give 1 to {MOST}, by name")
    by_name = {
        name: measure.wavelengths(measure.frequencies(encoding, length))
        for name, encoding in encodings.items()
    }
    turning = torch.cat([of[of.isfinite()] for of in by_name.values()])
    least = min(float(turning.min()) if len(turning) else 1.0, trained)
    most = max(float(turning.max()) if len(turning) else 1.0, trained)
    edge = 2.5 * most
    canvas = Canvas(theme, language, "wavelengths", trained=trained, height=4.2)
    axes = canvas.axes(grid="y", yscale="log")
    axes.axhspan(trained, 2 * edge, color=canvas.theme.hidden, linewidth=0, zorder=0)
    axes.axhline(trained, color=canvas.theme.muted, linewidth=1.1, zorder=1)
    # Of lines that coincide the lower ones are seen on both sides of the upper.
    widths = torch.linspace(3.6 if len(by_name) > 1 else 1.7, 1.2, len(by_name)).tolist()
    for style, (name, of) in enumerate(by_name.items()):
        for head, row in enumerate(of):
            canvas.line(
                axes, torch.arange(len(row)), row.clamp(max=edge), style,
                label=name if head == 0 else None, linewidth=widths[style],
                marker=canvas.marker(style), markersize=3.8,
            )  # fmt: skip
    axes.set_ylim(least / 1.6, edge * 1.25)
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:,.6g}")
    axes.minorticks_off()
    canvas.whole(axes.xaxis)
    canvas.label(axes, "pair", "tokens")
    inside = {"transform": axes.get_yaxis_transform()}
    canvas.write(axes, canvas.say("beyond"), (0.01, trained * 1.12), **inside)
    if any(bool(of.isinf().any()) for of in by_name.values()):
        at = (0.99, edge / 1.15)
        canvas.write(axes, canvas.say("still"), at, va="top", ha="right", **inside)
    canvas.legend(axes)
    return canvas.figure


def scaled(rotary: Rotary, trained: int = 4096, factor: float = 8.0) -> dict[str, Encoding]:
    """The same rotary under every scaling that fits it, for inputs `factor` times as long.

    LongRoPE's divisors are found by search; here they rise slowly at first, as an example.
    """
    pairs = rotary.turned // 2
    long = [factor ** ((i / max(pairs - 1, 1)) ** 2) for i in range(pairs)]
    rules: dict[str, Scaling | None] = {
        "RoPE": None,
        "Linear (PI)": Linear(factor),
        "NTK": NTK(factor),
        "DynamicNTK": DynamicNTK(1.0, trained),
        "YaRN": YaRN(factor, trained),
        "Llama 3": Llama3(factor, 1.0, 4.0, trained),
        "LongRoPE": LongRoPE([1.0] * pairs, long, trained, factor),
        "p-RoPE": Proportional(0.25),
    }
    settings = {"layout": rotary.layout, "rotary_dim": rotary.rotary_dim}
    by_rule: dict[str, Encoding] = {}
    for name, rule in rules.items():
        try:
            by_rule[name] = Rotary(rotary.dim, rotary.base, scaling=rule, **settings)
        except SettingError:
            # A head of few pairs is too small for some formulas.
            continue
    return by_rule
