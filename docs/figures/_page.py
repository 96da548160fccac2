"""A lesson's figure on its way: the library's canvas, with the lesson's own words."""

from collections.abc import Sequence
from typing import Any

from posenc.analysis.plot.canvas import Canvas
from posenc.words import Texts as Texts


class Page(Canvas):
    """A canvas without a title, for the lesson's text says what it is."""

    def __init__(self, theme: str, language: str, texts: Texts, height: float) -> None:
        super().__init__(theme, language, texts=texts, height=height)

    def numbers(
        self,
        axes: Any,
        rows: Sequence[Sequence[float]],
        palette: str,
        limits: tuple[float, float],
        texts: Sequence[Sequence[str]] | None = None,
    ) -> None:
        """What the cells of a heatmap hold, in black or white, whichever stands out from them.

        texts is what is written where that is not what gives the colour.
        """
        low, high = limits
        colours = self.colours(palette)
        for i, row in enumerate(rows):
            for j, value in enumerate(row):
                cell = colours((value - low) / (high - low))
                shade = "white" if luminance(cell) < MIDDLE else "black"
                look = {"color": shade, "bbox": None, "ha": "center", "va": "center"}
                text = texts[i][j] if texts else f"{value:.2f}"
                self.write(axes, text, (j, i), fontsize=8.5, **look)


# Black and white stand out alike from this: (1 + 0.05) / (x + 0.05) = (x + 0.05) / 0.05.
MIDDLE = (1.05 * 0.05) ** 0.5 - 0.05


def luminance(colour: Sequence[float]) -> float:
    """The relative luminance of red, green and blue (0 to 1), as WCAG 2 defines it."""
    linear = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour[:3])
    return sum(share * c for share, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
