"""The report's curves, drawn by matplotlib with the placeholder colours of `svg`."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from posenc.report.marks import MARKERS, End, dash, name_ends, short, styled_axes
from posenc.report.markup import Markup
from posenc.report.svg import BEYOND, MUTED, PAPER, hue, inline

# A uniform guess over 256 bytes; what is far above it would flatten everything else.
HIGHEST = 1.15 * math.log(256)
WIDTH, HEIGHT = 4.4, 3.35
BOX = (0.12, 0.145, 0.625, 0.78)


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


def by_length(
    curves: Sequence[Curve],
    train_length: int,
    lengths: Sequence[int],
    alt: str,
    beside: Sequence[Curve] = (),
    *,
    mark: str,
    axis: str,
    highest: float = HIGHEST,
) -> Markup:
    """Loss against test length on a log2 axis, with intervals and one dot per seed.

    `mark` and `axis` are the words at the train length and below the axis. `beside` are the curves
    of a picture next to it, which shall have the same scale. What is above `highest` leaves the
    picture.
    """

    def draw() -> Any:
        figure, axes = _axes()
        at = [curve_on(curve, math.log2) for curve in curves]
        ticks = [math.log2(length) for length in lengths]
        span = ticks[-1] - ticks[0] or 1.0
        axes.set_xlim(ticks[0] - 0.06 * span, ticks[-1] + 0.06 * span)
        axes.set_xticks(*_thinned(ticks, [str(length) for length in lengths], span))
        _mark_train(axes, math.log2(train_length), mark)
        _lines(axes, at, markers=True)
        axes.set_xlabel(axis)
        _finish(axes, at, [*at, *beside], highest)
        return figure

    return inline(draw, alt)


def by_position(
    curves: Sequence[Curve],
    train_length: int,
    alt: str,
    *,
    mark: str,
    axis: str,
    highest: float = HIGHEST,
) -> Markup:
    """Loss against position inside the longest window."""

    def draw() -> Any:
        figure, axes = _axes()
        right = max((x for curve in curves for x in curve.x), default=1.0)
        axes.set_xlim(0, right)
        _mark_train(axes, train_length, mark)
        _lines(axes, curves, markers=False)
        axes.set_xlabel(axis)
        _finish(axes, curves, curves, highest)
        return figure

    return inline(draw, alt)


def training(curves: Sequence[Curve], alt: str, *, axis: str) -> Markup:
    """Training loss against step."""

    def draw() -> Any:
        figure, axes = _axes()
        axes.set_xlim(0, max((x for curve in curves for x in curve.x), default=1.0))
        _lines(axes, curves, markers=False)
        axes.set_xlabel(axis)
        _finish(axes, curves, curves)
        return figure

    return inline(draw, alt)


def curve_on(curve: Curve, scale: Callable[[float], float]) -> Curve:
    dots = tuple((scale(x), y) for x, y in curve.dots)
    x = tuple(map(scale, curve.x))
    return Curve(curve.label, curve.style, x, curve.y, curve.half, dots)


def _axes() -> tuple[Any, Any]:
    figure, axes = styled_axes((WIDTH, HEIGHT), BOX)
    axes.tick_params(axis="x", length=3)
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
            x, y, color=color, linewidth=1.7, linestyle=dash(curve.style),
            marker=MARKERS[curve.style % len(MARKERS)] if markers else None, markersize=5,
            markeredgecolor=PAPER, markeredgewidth=0.8, zorder=4,
            solid_joinstyle="round", dash_capstyle="butt",
        )  # fmt: skip
        dots = [(x, y) for x, y in curve.dots if math.isfinite(y)]
        if dots:
            axes.plot(*zip(*dots, strict=True), "o", color=color, markersize=2.6, zorder=5,
                      markeredgecolor=PAPER, markeredgewidth=0.4)  # fmt: skip


def _finish(
    axes: Any, curves: Sequence[Curve], scaled: Sequence[Curve], highest: float = HIGHEST
) -> None:
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
    low, high = max(low, 0.0), min(high, highest)
    margin = 0.05 * (high - low) or 0.1
    axes.set_ylim(low - margin, high + margin)
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
    shown = [curve for curve in curves if curve.finite]
    top = axes.get_ylim()[1]
    ends = []
    for curve in shown:
        x, y = curve.finite[-1]
        arrow = " \N{UPWARDS ARROW}" if y > top else ""
        ends.append(End(short(curve.label, 12) + arrow, hue(curve.style), x, y))
    name_ends(axes, ends)
