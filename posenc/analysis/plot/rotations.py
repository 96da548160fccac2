"""How far and how fast the pairs of an encoding turn."""

from collections.abc import Mapping

import torch

from posenc.analysis import measure
from posenc.analysis.plot.canvas import (
    DASHED,
    LONGEST,
    Canvas,
    Figure,
    checked_index,
    checked_length,
)
from posenc.analysis.plot.style import ThemeName
from posenc.encoding import Encoding
from posenc.encodings import scaling
from posenc.encodings.rotary import Rotary
from posenc.errors import SettingError
from posenc.words import Language

# How many encodings have room in one figure.
MOST = 12


def angles(
    encoding: Encoding,
    length: int = 64,
    head: int = 0,
    *,
    theme: ThemeName = "light",
    language: Language = "en",
) -> Figure:
    """Angles of all pairs against distance, from -pi to pi, and the turns that each completes.

    Angles are `measure.relative_angles`, turns `measure.turns` within `length` tokens: a pair left
    of one turn shows new angles to any longer input. Raises UnsupportedError for an encoding that
    does not turn.
    """
    wrapped = measure.relative_angles(encoding, checked_length(length, LONGEST), wrapped=True)
    wrapped = wrapped[checked_index("head", head, len(wrapped))]
    speed = measure.frequencies(encoding, length)
    turns = measure.turns(speed[min(head, len(speed) - 1)], length)
    canvas = Canvas(theme, language, "angles", note=encoding, height=3.6)
    grid = canvas.figure.add_gridspec(1, 2, width_ratios=(2.2, 1.0))
    axes = canvas.axes(grid[0])
    limits = (-torch.pi, torch.pi)
    canvas.heat(axes, wrapped.T, palette="cyclic", limits=limits, bar="radians")
    canvas.label(axes, "back", "pair")
    beside = canvas.axes(grid[1], grid="x", sharey=axes, xscale="log")
    turning = turns > 0
    rows = torch.arange(len(turns))[turning]
    beside.axvline(1.0, color=canvas.theme.muted, linewidth=1.0, linestyle=DASHED)
    line = canvas.theme.lines[0]
    beside.plot(turns[turning].numpy(), rows.numpy(), "o", color=line, markersize=4)
    beside.tick_params(labelleft=False)
    beside.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    beside.minorticks_off()
    canvas.label(beside, "turns", title="angles_turns", length=length)
    return canvas.figure


def wavelengths(
    encodings: Mapping[str, Encoding],
    trained: int = 4096,
    length: int | None = None,
    *,
    theme: ThemeName = "light",
    language: Language = "en",
) -> Figure:
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
    every = torch.cat([rows.flatten() for rows in by_name.values()])
    turning = every[every.isfinite()].tolist() or [1.0]
    least, edge = min(*turning, trained), 2.5 * max(*turning, trained)
    canvas = Canvas(theme, language, "wavelengths", trained=trained, height=4.2)
    axes = canvas.axes(grid="y", yscale="log")
    axes.axhspan(trained, 2 * edge, color=canvas.theme.hidden, linewidth=0, zorder=0)
    axes.axhline(trained, color=canvas.theme.muted, linewidth=1.1, zorder=1)
    # Lines get thinner towards the top, so that those which coincide can all be seen.
    widths = torch.linspace(3.6 if len(by_name) > 1 else 1.7, 1.2, len(by_name)).tolist()
    for style, (name, heads) in enumerate(by_name.items()):
        look = {"linewidth": widths[style], "marker": canvas.marker(style), "markersize": 3.8}
        for head, row in enumerate(heads):
            label = name if head == 0 else None
            canvas.line(
                axes, torch.arange(len(row)), row.clamp(max=edge), style, label=label, **look
            )
    axes.set_ylim(least / 1.6, edge * 1.25)
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:,.6g}")
    axes.minorticks_off()
    canvas.whole(axes.xaxis)
    canvas.label(axes, "pair", "tokens")
    inside = {"transform": axes.get_yaxis_transform()}
    canvas.write(axes, canvas.say("beyond"), (0.01, trained * 1.12), **inside)
    if every.isinf().any():
        place = (0.99, edge / 1.15)
        canvas.write(axes, canvas.say("still"), place, va="top", ha="right", **inside)
    canvas.legend(axes)
    return canvas.figure


def scaled(rotary: Rotary, trained: int = 4096, factor: float = 8.0) -> dict[str, Encoding]:
    """The same rotary under every scaling that fits it, for inputs `factor` times as long.

    LongRoPE's divisors are found by search; here they rise slowly at first, as an example.
    """
    pairs = rotary.rotated_dim // 2
    long = [factor ** ((i / max(pairs - 1, 1)) ** 2) for i in range(pairs)]
    rules: dict[str, scaling.Scaling | None] = {
        "RoPE": None,
        "Linear (PI)": scaling.Linear(factor),
        "NTK": scaling.NTK(factor),
        "DynamicNTK": scaling.DynamicNTK(1.0, trained),
        "YaRN": scaling.YaRN(factor, trained),
        "Llama 3": scaling.Llama3(factor, 1.0, 4.0, trained),
        "LongRoPE": scaling.LongRoPE([1.0] * pairs, long, trained, factor),
        "p-RoPE": scaling.Proportional(0.25),
    }
    names = ("layout", "rotary_dim", "start")
    settings = {name: value for name, value in rotary.settings().items() if name in names}
    by_rule: dict[str, Encoding] = {}
    for name, rule in rules.items():
        try:
            by_rule[name] = Rotary(rotary.dim, rotary.base, scaling=rule, **settings)
        except SettingError:
            # A head of few pairs is too small for some formulas.
            continue
    return by_rule
