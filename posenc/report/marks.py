"""Lines, markers and names of curves, the same in every picture of a page."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from posenc.report.markup import Markup, printable, tag
from posenc.report.svg import HUES, MUTED, PAPER, RULE, hue, inline
from posenc.words import columns

# Colour alone is never the only difference between two encodings.
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p")
DASHES = ("solid", (0, (5, 2)), (0, (1.5, 1.5)), (0, (7, 2, 1.5, 2)), (0, (3, 1.5)))

# Points between two names, one above the other.
NAME_GAP = 12


@dataclass(frozen=True)
class End:
    """Where a curve ends, in the data's coordinates, and what it is called there."""

    name: str
    colour: str
    x: float
    y: float


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


def dash(style: int) -> Any:
    return DASHES[(style + style // HUES) % len(DASHES)]


def styled_axes(
    size: tuple[float, float], box: tuple[float, float, float, float]
) -> tuple[Any, Any]:
    """A figure of `size` inches whose axes fill `box` of it and leave room for names."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, facecolor="none")
    axes = figure.add_axes(box, facecolor="none")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(MUTED)
    axes.tick_params(length=0, pad=4, labelcolor=MUTED, colors=MUTED)
    axes.grid(axis="y", color=RULE, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.xaxis.label.set_color(MUTED)
    return figure, axes


def name_ends(axes: Any, ends: Sequence[End]) -> None:
    """A name to the right of each curve, where it ends, none upon another; on any scale."""
    to_axes = axes.transData + axes.transAxes.inverted()
    places = [to_axes.transform((end.x, end.y)) for end in ends]
    heights = [min(max(float(y), 0.0), 1.0) for _, y in places]
    point = axes.figure.dpi / (72 * axes.bbox.height)
    placed = spread(heights, NAME_GAP * point, 3 * point, 1 - 3 * point)
    for end, (x, _), height, to in zip(ends, places, heights, placed, strict=True):
        axes.plot(
            [x, 1, 1.035], [height, height, to], transform=axes.transAxes, color=end.colour,
            linewidth=0.7, alpha=0.6, clip_on=False, zorder=3, scalex=False, scaley=False,
        )  # fmt: skip
        axes.annotate(
            end.name, (1.035, to), (3, 0), xycoords="axes fraction", textcoords="offset points",
            color=end.colour, va="center", annotation_clip=False, parse_math=False,
        )  # fmt: skip


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
    """`name` on one line, cut to the width of `length` Latin letters."""
    name = printable(name).replace("\n", " ")
    if columns(name) <= length:
        return name
    kept = next(n for n in range(len(name), -1, -1) if columns(name[:n]) < length)
    return f"{name[:kept].rstrip()}\N{HORIZONTAL ELLIPSIS}"


def _draw_swatch(style: int) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(0.36, 0.14), facecolor="none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.axis("off")
    axes.plot([0.02, 0.98], [0.5, 0.5], color=hue(style), linewidth=1.6, linestyle=dash(style))
    axes.plot([0.5], [0.5], MARKERS[style % len(MARKERS)], color=hue(style), markersize=5.5,
              markeredgecolor=PAPER, markeredgewidth=0.8)  # fmt: skip
    return figure
