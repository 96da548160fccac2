"""The report's curves, drawn by matplotlib with the placeholder colours of `svg`."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from posenc.lab.markup import Markup, printable, tag
from posenc.lab.svg import BEYOND, HUES, MUTED, PAPER, RULE, hue, inline

# Colour alone is never the only difference between two encodings.
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p")
DASHES = ("solid", (0, (5, 2)), (0, (1.5, 1.5)), (0, (7, 2, 1.5, 2)), (0, (3, 1.5)))

# A uniform guess over 256 bytes; what is far above it would flatten everything else.
HIGHEST = 1.15 * math.log(256)
WIDTH, HEIGHT = 4.4, 3.35


@dataclass(frozen=True)
class Curve:
    """One encoding's line: `y` (nats per byte) may hold `math.inf` where it diverged."""

    label: str
    style: int  # the encoding's place in the report, which fixes colour, marker and dash
    x: tuple[float, ...]
    y: tuple[float, ...]
    half: tuple[float, ...] = ()  # half widths of the intervals, or none
    dots: tuple[tuple[float, float], ...] = ()  # one per seed and x

    @property
    def finite(self) -> list[tuple[float, float]]:
        return [(x, y) for x, y in zip(self.x, self.y, strict=True) if math.isfinite(y)]


def swatches(count: int) -> Markup:
    """The lines and markers of `count` encodings, hidden, for `swatch` to point to."""
    drawn = [inline(partial(_draw_swatch, style), None) for style in range(count)]
    symbols = [
        svg.replace("<svg", f'<symbol id="swatch-{style}"', 1).removesuffix("</svg>") + "</symbol>"
        for style, svg in enumerate(drawn)
    ]
    return tag("svg", Markup("".join(symbols)), class_="hidden", aria_hidden="true")


def swatch(style: int) -> Markup:
    """An encoding's line and marker, small, for use beside its name."""
    use = tag("use", href=f"#swatch-{style}")
    return tag("svg", use, class_="swatch", aria_hidden="true")


def by_length(
    curves: Sequence[Curve],
    train_length: int,
    lengths: Sequence[int],
    alt: str,
    beside: Sequence[Curve] = (),
) -> Markup:
    """Loss against test length on a log2 axis, with intervals and one dot per seed.

    `beside` are the curves of a picture next to it, which shall have the same scale.
    """

    def draw() -> Any:
        figure, axes = _axes(HEIGHT)
        at = [curve_on(curve, math.log2) for curve in curves]
        ticks = [math.log2(length) for length in lengths]
        span = ticks[-1] - ticks[0] or 1.0
        axes.set_xlim(ticks[0] - 0.06 * span, ticks[-1] + 0.06 * span)
        axes.set_xticks(*_thinned(ticks, [str(length) for length in lengths], span))
        _mark_train(axes, math.log2(train_length), f"trained at {train_length}")
        _lines(axes, at, markers=True)
        axes.set_xlabel("length of the text read, in bytes")
        _finish(axes, at, [*at, *beside])
        return figure

    return inline(draw, alt)


def by_position(curves: Sequence[Curve], train_length: int, alt: str) -> Markup:
    """Loss against position inside the longest window."""

    def draw() -> Any:
        figure, axes = _axes(HEIGHT)
        right = max((x for curve in curves for x in curve.x), default=1.0)
        axes.set_xlim(0, right)
        _mark_train(axes, train_length, f"trained to {train_length}")
        _lines(axes, curves, markers=False)
        axes.set_xlabel("position in the window, in bytes")
        _finish(axes, curves, curves)
        return figure

    return inline(draw, alt)


def training(curves: Sequence[Curve], alt: str) -> Markup:
    """Training loss against step."""

    def draw() -> Any:
        figure, axes = _axes(HEIGHT)
        axes.set_xlim(0, max((x for curve in curves for x in curve.x), default=1.0))
        _lines(axes, curves, markers=False)
        axes.set_xlabel("training step")
        _finish(axes, curves, curves)
        return figure

    return inline(draw, alt)


def curve_on(curve: Curve, scale: Callable[[float], float]) -> Curve:
    dots = tuple((scale(x), y) for x, y in curve.dots)
    x = tuple(map(scale, curve.x))
    return Curve(curve.label, curve.style, x, curve.y, curve.half, dots)


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Heights near `wanted`, in the same order, at least `gap` apart and inside low..high.

    Neighbours that are too close form a block around their mean; blocks merge until none overlap.
    When there is no room for all, the gap shrinks.
    """
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    gap = min(gap, (high - low) / max(len(wanted) - 1, 1))
    blocks: list[list[int]] = []
    starts: list[float] = []
    for i in order:
        block, start = [i], min(max(wanted[i], low), high)
        while blocks and starts[-1] + gap * len(blocks[-1]) > start:
            block = blocks.pop() + block
            starts.pop()
            centre = sum(wanted[j] for j in block) / len(block)
            room = gap * (len(block) - 1)
            start = min(max(centre - room / 2, low), high - room)
        blocks.append(block)
        starts.append(start)
    placed = [0.0] * len(wanted)
    for block, start in zip(blocks, starts, strict=True):
        for place, i in enumerate(block):
            placed[i] = start + gap * place
    return placed


def short(name: str, length: int) -> str:
    """`name` on one line, cut to `length` letters."""
    name = printable(name).replace("\n", " ")
    return name if len(name) <= length else f"{name[: length - 1]}\N{HORIZONTAL ELLIPSIS}"


def _dash(style: int) -> Any:
    return DASHES[(style + style // HUES) % len(DASHES)]


def _axes(height: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), facecolor="none")
    axes = figure.add_axes((0.085, 0.145, 0.675, 0.78), facecolor="none")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(MUTED)
    axes.tick_params(length=0, pad=4, labelcolor=MUTED, colors=MUTED)
    axes.tick_params(axis="x", length=3)
    axes.grid(axis="y", color=RULE, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.xaxis.label.set_color(MUTED)
    return figure, axes


def _thinned(ticks: list[float], labels: list[str], span: float) -> tuple[list[float], list[str]]:
    """Ticks far enough apart to be read; the first and the last stay."""
    kept = [0]
    for i in range(1, len(ticks)):
        if ticks[i] - ticks[kept[-1]] >= 0.085 * span:
            kept.append(i)
        elif i == len(ticks) - 1 and len(kept) > 1:
            kept[-1] = i
    return [ticks[i] for i in kept], [labels[i] for i in kept]


def _mark_train(axes: Any, x: float, label: str) -> None:
    right = axes.get_xlim()[1]
    if x < right:
        axes.axvspan(x, right, color=BEYOND, linewidth=0, zorder=0)
    axes.axvline(x, color=MUTED, linewidth=0.9, zorder=1)
    axes.annotate(
        label, (x, 1), (0, 4), xycoords=("data", "axes fraction"), textcoords="offset points",
        color=MUTED, va="bottom", annotation_clip=False,
    )  # fmt: skip


def _lines(axes: Any, curves: Sequence[Curve], *, markers: bool) -> None:
    for curve in curves:
        color, points = hue(curve.style), curve.finite
        if not points:
            continue
        x, y = zip(*points, strict=True)
        if curve.half:
            low = [m - h for m, h in zip(curve.y, curve.half, strict=True) if math.isfinite(m)]
            high = [m + h for m, h in zip(curve.y, curve.half, strict=True) if math.isfinite(m)]
            axes.fill_between(x, low, high, color=color, alpha=0.13, linewidth=0, zorder=2)
        axes.plot(
            x, y, color=color, linewidth=1.7, linestyle=_dash(curve.style),
            marker=MARKERS[curve.style % len(MARKERS)] if markers else None, markersize=5,
            markeredgecolor=PAPER, markeredgewidth=0.8, zorder=4,
            solid_joinstyle="round", dash_capstyle="butt",
        )  # fmt: skip
        dots = [(x, y) for x, y in curve.dots if math.isfinite(y)]
        if dots:
            axes.plot(*zip(*dots, strict=True), "o", color=color, markersize=2.6, zorder=5,
                      markeredgecolor=PAPER, markeredgewidth=0.4)  # fmt: skip


def _finish(axes: Any, curves: Sequence[Curve], scaled: Sequence[Curve]) -> None:
    """Limits that outliers cannot flatten, and a name at the end of each line."""
    reach = [
        (y - h, y + h)
        for curve in scaled
        for y, h in zip(curve.y, curve.half or [0.0] * len(curve.y), strict=True)
        if math.isfinite(y)
    ]
    reach += [(y, y) for curve in scaled for _, y in curve.dots if math.isfinite(y)]
    low = min((low for low, _ in reach), default=0.0)
    high = max((high for _, high in reach), default=1.0)
    low, high = max(low, 0.0), min(high, HIGHEST)
    margin = 0.05 * (high - low) or 0.1
    axes.set_ylim(low - margin, high + margin)
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
    _name_ends(axes, [curve for curve in curves if curve.finite])


def _name_ends(axes: Any, curves: Sequence[Curve]) -> None:
    bottom, top = axes.get_ylim()
    height = axes.bbox.height * 72 / axes.figure.dpi
    points = (top - bottom) / height
    ends = [curve.finite[-1] for curve in curves]
    wanted = [min(max(y, bottom), top) for _, y in ends]
    placed = spread(wanted, 12 * points, bottom + 3 * points, top - 3 * points)
    right = axes.get_xlim()[1]
    for curve, (x, y), at, to in zip(curves, ends, wanted, placed, strict=True):
        axes.plot(
            [x, right, right + 0.035 * (right - axes.get_xlim()[0])], [at, at, to],
            color=hue(curve.style), linewidth=0.7, alpha=0.6, clip_on=False, zorder=3,
        )  # fmt: skip
        above = " \N{UPWARDS ARROW}" if y > top else ""
        axes.annotate(
            short(curve.label, 12) + above, (right, to), (9, 0), textcoords="offset points",
            color=hue(curve.style), va="center", annotation_clip=False, parse_math=False,
        )  # fmt: skip


def _draw_swatch(style: int) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(0.36, 0.14), facecolor="none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.axis("off")
    axes.plot([0.02, 0.98], [0.5, 0.5], color=hue(style), linewidth=1.6, linestyle=_dash(style))
    axes.plot([0.5], [0.5], MARKERS[style % len(MARKERS)], color=hue(style), markersize=5.5,
              markeredgecolor=PAPER, markeredgewidth=0.8)  # fmt: skip
    return figure
