"""The page's pictures: log-log, with the floor drawn in."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from posenc.report.marks import DASHES, MARKERS, End, name_ends, short, styled_axes
from posenc.report.markup import Markup
from posenc.report.svg import INK, MUTED, PAPER, hue, inline

WIDTH, HEIGHT = 5.0, 3.5
BOX = (0.115, 0.135, 0.60, 0.82)


@dataclass(frozen=True)
class Curve:
    """One contestant's line; style None is the floor, drawn thick and plain."""

    label: str
    style: int | None
    points: tuple[tuple[float, float], ...]

    @property
    def colour(self) -> str:
        return MUTED if self.style is None else hue(self.style)


def log_log(curves: Sequence[Curve], limit: float | None, alt: str) -> Markup:
    """Curves over the length; `limit` is the figure to reach, where there is one."""

    def draw() -> Any:
        from matplotlib.ticker import FixedLocator, NullLocator

        figure, axes = styled_axes((WIDTH, HEIGHT), BOX)
        axes.set(xscale="log", yscale="log")
        for curve in curves:
            _line(axes, curve)
        if limit is not None:
            axes.axhline(limit, color=INK, linewidth=0.8, linestyle=(0, (2, 2)), zorder=2)
        lengths = sorted({x for curve in curves for x, _ in curve.points})
        axes.xaxis.set_major_locator(FixedLocator(lengths))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(lambda x, _: shown_length(x))
        _heights(axes, curves, limit)
        axes.set_xlabel("tokens")
        ends = [End(short(c.label, 20), c.colour, *c.points[-1]) for c in curves]
        if limit is not None:
            ends.append(End("figure to reach", INK, axes.get_xlim()[1], limit))
        name_ends(axes, ends)
        return figure

    return inline(draw, alt)


def shown_length(length: float) -> str:
    """512, 2k, 64k."""
    return f"{length / 1024:g}k" if length >= 1024 else f"{length:g}"


def _line(axes: Any, curve: Curve) -> None:
    x, y = zip(*curve.points, strict=True)
    if curve.style is None:
        axes.plot(x, y, color=MUTED, linewidth=3.2, solid_capstyle="round", alpha=0.55, zorder=2)
        return
    axes.plot(
        x, y, color=curve.colour, linewidth=1.6, zorder=4,
        linestyle=DASHES[curve.style % len(DASHES)],
        marker=MARKERS[curve.style % len(MARKERS)], markersize=5,
        markeredgecolor=PAPER, markeredgewidth=0.8,
    )  # fmt: skip


def _heights(axes: Any, curves: Sequence[Curve], limit: float | None) -> None:
    """Room above and below, and ticks at round numbers even within one decade."""
    from matplotlib.ticker import FixedLocator

    heights = [y for curve in curves for _, y in curve.points] + ([limit] if limit else [])
    low, high = min(heights) / 1.3, max(heights) * 1.3
    axes.set_ylim(low, high)
    steps: tuple[float, ...] = (1.0, 2.0, 5.0) if high / low < 300 else (1.0,)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [step * 10.0**decade for decade in decades for step in steps]
    axes.yaxis.set_major_locator(FixedLocator([tick for tick in ticks if low <= tick <= high]))
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:,.12g}")


# What a picture shows: its heading, what y is, and y from a result's values.
Height = Callable[[float, float, int], float]


@dataclass(frozen=True)
class Picture:
    """height(value, floor, at) is y; floor_height, where the floor is drawn."""

    title: str
    caption: str
    height: Height
    limit: float | None = None


def picture_of(curve: str) -> Picture:
    """How the curves of a name are drawn."""
    if curve == "rotary":
        return Picture(
            "Rotating q and k: nanoseconds per token",
            "8 heads of 128, float32, half layout. The thick line is the floor: multiplying the "
            "same tensors in place.",
            lambda value, floor, setting: 1e9 * value / setting,
        )
    if curve == "memory":
        return Picture(
            "Training with T5's bias: MiB that attention adds",
            "Forward and backward, 2 heads of 64, causal, float32. The thick line is SDPA without "
            "position. A line that ends early is of a method whose memory is quadratic.",
            lambda value, floor, setting: max(value, 0.1),
        )
    return Picture(
        f"Attention with {curve}: times the same without position",
        "Forward and backward, 8 heads of 64, causal.",
        lambda value, floor, setting: value / floor,
        # What these have to reach differs from length to length.
        None if curve.startswith(("no bias", "rotary")) else 0.9,
    )
