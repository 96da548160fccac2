"""Pictures of the page: maps of numbers as colours, and curves."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from posenc.report.marks import MARKERS, dash, styled_axes
from posenc.report.markup import Markup
from posenc.report.svg import INK, MUTED, PAPER, RULE, hue, inline

WIDTH = 5.0
# Blue above zero and orange below, of a lightness between paper and ink in light and in dark;
# numbers near zero let the paper through.
ABOVE, BELOW = (0.16, 0.47, 0.86), (0.85, 0.36, 0.12)
# The part of the numbers that colours are made for; the rest is drawn as the limit.
WITHIN = 0.98

# A longer table is drawn with some of its rows.
MOST_POINTS = 1024

Numbers = Sequence[Sequence[float | None]]


@dataclass(frozen=True)
class Ticks:
    """What stands beside the cells of a map: a word for the axis, and the number of each cell."""

    label: str
    numbers: Sequence[int]

    def some(self, most: int = 9) -> list[tuple[int, str]]:
        """Places and texts of a few round ones."""
        step = max(math.ceil(len(self.numbers) / most), 1)
        return [(n, str(self.numbers[n])) for n in range(0, len(self.numbers), step)]


def colour_limit(values: Numbers) -> float:
    """The size that WITHIN of the numbers do not exceed: one outlier does not fade all others."""
    known = sorted(abs(x) for row in values for x in row if x is not None)
    if not known or known[-1] == 0:
        return 1.0
    return known[min(math.ceil(WITHIN * len(known)), len(known)) - 1] or known[-1]


def number_map(
    values: Numbers,
    rows: Ticks,
    columns: Ticks,
    alt: str,
    *,
    limit: float | None = None,
    percent: bool = False,
) -> Markup:
    """Numbers as colours, with a scale; None is left blank."""
    high = colour_limit(values) if limit is None else limit
    negative = any(x is not None and x < 0 for row in values for x in row)
    square = rows.label == columns.label
    tall = 4.0 if square else min(max(0.85 + 0.11 * len(values), 2.0), 4.0)

    def draw() -> Any:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(WIDTH, tall), facecolor="none")
        # Numbers of more than three digits need more room.
        digits = max(len(text) for _, text in rows.some())
        left, low = 0.1 + 0.015 * max(digits - 3, 0), 0.5 / tall
        axes = figure.add_axes((left, low, 0.86 - left, 0.97 - low), facecolor="none")
        _cells(axes, [[_coloured(x, high) for x in row] for row in values])
        axes.set_xticks(*zip(*columns.some(), strict=True))
        axes.set_yticks(*zip(*rows.some(), strict=True))
        axes.set_xlabel(columns.label)
        axes.set_ylabel(rows.label)
        # One letter, as Chinese has them for rows and layers, stands upright.
        if len(rows.label) == 1:
            axes.yaxis.label.set(rotation=0, ha="right", va="center")
        beside = figure.add_axes((0.89, low, 0.025, 0.97 - low), facecolor="none")
        ends = (-high if negative else 0.0, high)
        steps = [ends[1] + (ends[0] - ends[1]) * n / 63 for n in range(64)]
        _cells(beside, [[_coloured(x, high)] for x in steps], extent=(0, 1, *ends))
        beside.set_xticks([])
        beside.yaxis.tick_right()
        if percent:
            beside.yaxis.set_major_formatter(lambda x, _: f"{100 * x:.3g}%")
        for one in (axes, beside):
            one.spines[:].set_color(RULE)
            one.tick_params(length=0, pad=4, labelcolor=MUTED, labelsize=8.5)
            one.xaxis.label.set_color(MUTED)
            one.yaxis.label.set_color(MUTED)
        return figure

    return inline(draw, alt)


def _coloured(x: float | None, high: float) -> tuple[float, float, float, float]:
    if x is None:
        return (0.0, 0.0, 0.0, 0.0)
    return (*(ABOVE if x >= 0 else BELOW), min(abs(x) / high, 1.0) ** 0.8)


def _cells(axes: Any, colours: Sequence[Sequence[Sequence[float]]], **placed: Any) -> None:
    import numpy

    # "none" keeps one pixel for each number, which the browser enlarges.
    axes.imshow(numpy.array(colours), interpolation="none", aspect="auto", **placed)


@dataclass(frozen=True)
class Line:
    name: str
    points: Sequence[tuple[float, float | None]]


def lines_picture(
    lines: Sequence[Line],
    x: str,
    alt: str,
    *,
    log_x: bool = False,
    log_y: bool = False,
    top: float | None = None,
    marks: Sequence[tuple[float, str]] = (),
) -> Markup:
    """Curves with a legend above them, cut at `top`; `marks` are named places on the x axis."""

    def draw() -> Any:
        figure, axes = styled_axes((WIDTH, 3.3), (0.115, 0.145, 0.86, 0.73))
        if log_x:
            axes.set_xscale("log")
        if log_y:
            axes.set_yscale("log")
        for style, line in enumerate(lines):
            points = [(a, b) for a, b in line.points if b is not None]
            few = len(points) <= 40
            axes.plot(
                [a for a, _ in points], [b for _, b in points], color=hue(style), linewidth=1.5,
                linestyle=dash(style), label=line.name, zorder=4, markersize=4.5,
                marker=MARKERS[style % len(MARKERS)] if few else None, markeredgecolor=PAPER,
                markeredgewidth=0.7,
            )  # fmt: skip
        for n, (place, name) in enumerate(sorted(marks)):
            # Two may be one place: a text that is as long as the training was.
            shift, side = (3, "left") if n else (-3, "right")
            axes.axvline(place, color=INK, linewidth=0.8, linestyle=(0, (2, 2)), zorder=2)
            axes.annotate(
                name, (place, 1), (shift, -2), xycoords=("data", "axes fraction"),
                textcoords="offset points", color=MUTED, fontsize=8.5, ha=side, va="top",
                rotation=90,
            )  # fmt: skip
        axes.set_xlabel(x)
        axes.minorticks_off()
        if top is not None:
            axes.set_ylim(0.0, top)
        if len(lines) > 1:
            axes.legend(
                loc="lower left", bbox_to_anchor=(-0.1, 1.0), ncols=5, frameon=False,
                labelcolor=MUTED, fontsize=8.5, handlelength=2.2, columnspacing=1.2,
            )  # fmt: skip
        return figure

    return inline(draw, alt)


def points_picture(
    points: Sequence[tuple[float, float]], x: str, y: str, alt: str, *, ends: tuple[str, str]
) -> Markup:
    """Points in their order, the first in one colour and the last in the other, named `ends`."""
    shown = points[:: math.ceil(len(points) / MOST_POINTS)]

    def draw() -> Any:
        figure, axes = styled_axes((WIDTH, 4.0), (0.16, 0.125, 0.815, 0.775))
        shares = [n / max(len(shown) - 1, 1) for n in range(len(shown))]
        colours = [
            tuple(a + (b - a) * share for a, b in zip(BELOW, ABOVE, strict=True))
            for share in shares
        ]
        axes.scatter(*zip(*shown, strict=True), c=colours, s=7, linewidths=0, zorder=4)
        for colour, name in zip((BELOW, ABOVE), ends, strict=True):
            axes.scatter([], [], color=[colour], s=20, label=name)
        axes.legend(
            loc="lower left", bbox_to_anchor=(-0.05, 1.0), ncols=2, frameon=False,
            labelcolor=MUTED, fontsize=8.5, handletextpad=0.2,
        )  # fmt: skip
        axes.set_xlabel(x)
        axes.set_ylabel(y, color=MUTED)
        return figure

    return inline(draw, alt)
