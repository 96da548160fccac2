"""A figure on its way: its theme, its language, and how parts are drawn in them."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from posenc.analysis.plot.fonts import families
from posenc.analysis.plot.labels import TEXT
from posenc.analysis.plot.style import DASHES, MARKERS, theme_of
from posenc.errors import SettingError
from posenc.words import Texts, Words

if TYPE_CHECKING:
    from matplotlib.figure import Figure
else:
    # matplotlib is imported by the first figure that is drawn, and documentation names the class.
    Figure = "matplotlib.figure.Figure"

WIDTH, HEIGHT = 6.4, 3.7
# More letters of a note do not fit below a figure.
NOTE = 100
# A curve, and a matrix, of so many tokens hold more than a figure has room for.
LONGEST, LARGEST = 8192, 1024
DASHED = (0, (2, 2))


class Canvas:
    """A figure without pyplot: title above, note below, axes in one style.

    title is a key of texts, filled with `values`; note is what is drawn, or a text about it.
    Raises SettingError for an unknown theme or language.
    """

    def __init__(
        self,
        theme: str,
        language: str,
        title: str = "",
        *,
        note: object = "",
        height: float = HEIGHT,
        texts: Texts = TEXT,
        **values: object,
    ) -> None:
        self.theme, self.say = theme_of(theme), Words(language, texts)
        from matplotlib.figure import Figure

        self.families = families()
        self.figure = Figure((WIDTH, height), facecolor=self.theme.paper, layout="constrained")
        left = {"x": 0.012, "ha": "left"}
        if title:
            self.figure.set_layout_engine("constrained", h_pad=0.08)
            self.figure.suptitle(self.say(title, **values), fontsize=11.5, **left, **self.font())
        if text := note_of(note):
            text = text if len(text) <= NOTE else f"{text[: NOTE - 3]}..."
            self.figure.supxlabel(text, fontsize=7, **left, **self.font(self.theme.muted))

    def font(self, colour: str | None = None) -> dict[str, Any]:
        """What every text is drawn with; names of encodings may hold signs of formulas."""
        colour = colour or self.theme.ink
        return {"fontfamily": self.families, "color": colour, "parse_math": False}

    def axes(self, *place: Any, grid: str | None = None, **options: Any) -> Any:
        """New axes at a place of `add_subplot`; grid is "x", "y", "both" or None."""
        axes = self.figure.add_subplot(*place or (111,), facecolor=self.theme.paper, **options)
        if options.get("projection") != "3d":
            axes.spines[["top", "right"]].set_visible(False)
            axes.spines[["left", "bottom"]].set_color(self.theme.muted)
        self.ticks(axes)
        axes.set_axisbelow(True)
        if grid:
            axes.grid(axis=grid, color=self.theme.grid, linewidth=0.7)
        return axes

    def ticks(self, axes: Any) -> None:
        muted = {"colors": self.theme.muted, "labelcolor": self.theme.muted}
        axes.tick_params(labelsize=8, length=3, labelfontfamily=self.families, **muted)

    def label(self, axes: Any, x: str = "", y: str = "", title: str = "", **values: object) -> None:
        """Names of the axes and of the part, by their keys in `labels.TEXT`."""
        if x:
            axes.set_xlabel(self.say(x), fontsize=9, **self.font())
        if y:
            axes.set_ylabel(self.say(y), fontsize=9, **self.font())
        if title:
            axes.set_title(self.say(title, **values), fontsize=9, loc="left", **self.font())

    def whole(self, *axes: Any) -> None:
        """Ticks at whole numbers only, for matplotlib's axis objects."""
        from matplotlib.ticker import MaxNLocator

        for axis in axes:
            axis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))

    def colours(self, palette: str) -> Any:
        """A colour map: "diverging", "sequential" or "cyclic"."""
        import matplotlib
        from matplotlib.colors import LinearSegmentedColormap

        if palette == "cyclic":
            colours = matplotlib.colormaps[self.theme.cyclic]
        else:
            colours = LinearSegmentedColormap.from_list(palette, getattr(self.theme, palette))
        return colours.with_extremes(bad=self.theme.hidden)

    def cells(self, palette: str) -> dict[str, Any]:
        """How `imshow` draws one pixel for each number, however large it is shown."""
        return {"cmap": self.colours(palette), "aspect": "auto", "interpolation": "none"}

    def heat(
        self,
        axes: Any,
        values: Tensor,
        *,
        palette: str = "diverging",
        limits: tuple[float, float] | None = None,
        bar: str = "",
        words: dict[str, str] | None = None,
        origin: str = "upper",
        left: float = 0.0,
    ) -> None:
        """Numbers (rows, columns) as colours, one cell each; what is not finite is left blank.

        Limits are by default the same on both sides of 0. bar is the key of the label of a colour
        bar, words what the label is filled with; the first column stands at `left`.
        """
        shown = finite(values)
        low, high = limits or balanced(shown)
        rows, columns = shown.shape
        ends = (-0.5, rows - 0.5) if origin == "lower" else (rows - 0.5, -0.5)
        extent = (left - 0.5, left + columns - 0.5, *ends)
        limited = self.cells(palette) | {"vmin": low, "vmax": high}
        axes.imshow(shown.numpy(), extent=extent, origin=origin, **limited)
        axes.spines[["left", "bottom"]].set_visible(False)
        self.whole(axes.xaxis, axes.yaxis)
        if bar:
            self.bar(axes, palette, low, high, self.say(bar, **(words or {})))

    def bar(
        self, axes: Any, palette: str, low: float, high: float, label: str, whole: bool = False
    ) -> None:
        """A labelled colour bar to the right of axes; ticks at whole numbers or where they fall."""
        beside = axes.inset_axes((1.03, 0.0, 0.025, 1.0))
        steps, extent = torch.linspace(low, high, 128)[:, None], (0.0, 1.0, low, high)
        beside.imshow(steps.numpy(), extent=extent, origin="lower", **self.cells(palette))
        beside.set_xticks([])
        if whole:
            self.whole(beside.yaxis)
        beside.yaxis.tick_right()
        beside.yaxis.set_label_position("right")
        beside.spines[:].set_visible(False)
        self.ticks(beside)
        beside.set_ylabel(label, fontsize=8.5, **self.font())

    def line(self, axes: Any, x: Tensor, y: Tensor, style: int = 0, **options: Any) -> None:
        """A curve in the style of a number, which fixes colour and dashes."""
        lines = self.theme.lines
        look = {"color": lines[style % len(lines)], "linestyle": DASHES[style % len(DASHES)]}
        look |= {"linewidth": 1.7, "solid_joinstyle": "round"} | options
        axes.plot(finite(x).numpy(), finite(y).numpy(), **look)

    def marker(self, style: int) -> str:
        return MARKERS[style % len(MARKERS)]

    def write(self, axes: Any, text: str, place: tuple[float, float], **options: Any) -> None:
        """A small muted remark; its place is in data, unless options say otherwise."""
        # Whatever is drawn below it stays a little away from the letters.
        box = {"facecolor": self.theme.paper, "edgecolor": "none", "alpha": 0.8, "pad": 0.8}
        axes.text(
            *place, text, **self.font(self.theme.muted) | {"fontsize": 8, "bbox": box} | options
        )

    def legend(self, axes: Any, **options: Any) -> None:
        from matplotlib.font_manager import FontProperties

        look = {"loc": "upper left", "bbox_to_anchor": (1.02, 1.0), "borderaxespad": 0.0} | options
        font = FontProperties(family=self.families, size=8)
        drawn = axes.legend(frameon=False, prop=font, labelcolor=self.theme.ink, **look)
        for text in drawn.get_texts():
            text.set_parse_math(False)


def note_of(drawn: object) -> str:
    """A text as it is; the repr, or the class of what keeps no settings as attributes."""
    try:
        return drawn if isinstance(drawn, str) else repr(drawn)
    except AttributeError:
        return type(drawn).__name__


def finite(values: Tensor) -> Tensor:
    """As float64 on the CPU, with nan for what is not finite, which matplotlib leaves out."""
    values = values.detach().cpu().double()
    return values.where(values.isfinite(), torch.nan)


def balanced(*values: Tensor) -> tuple[float, float]:
    """Limits that lie as far below 0 as above it; what is not finite has no part in them."""
    sizes = [finite(v).nan_to_num().abs().max().item() for v in values if v.numel()]
    largest = max(sizes, default=0.0) or 1.0
    return -largest, largest


def spaced(count: int, at_most: int) -> list[int]:
    """Up to `at_most` of 0 .. count - 1, the first and the last among them, evenly spaced."""
    if count <= at_most:
        return list(range(count))
    return sorted({round(i * (count - 1) / (at_most - 1)) for i in range(at_most)})


def checked_length(length: int, most: int = LARGEST) -> int:
    """`length` where a figure can show so many tokens, else a SettingError."""
    if not 2 <= length <= most:
        raise SettingError(f"length={length}: this figure shows 2 to {most} tokens")
    return length


def checked_index(name: str, value: int, count: int) -> int:
    """`value` where there are more of its kind, else a SettingError that says how many."""
    if not 0 <= value < count:
        raise SettingError(f"{name}={value}: there are {count}, counted from 0")
    return value
