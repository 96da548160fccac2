"""Figures of lessons can be read: numbers stand out from their cells, and maps are large."""

import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

DOCS = Path(__file__).parents[2] / "docs"
sys.path += [str(DOCS), str(DOCS.parent / "tools")]

from figures import ideal_encoding, position_sensitivity, why_position  # noqa: E402
from figures._page import luminance  # noqa: E402
from matplotlib.colors import to_rgb  # noqa: E402

# The least contrast that WCAG asks of text.
LEAST = 4.5


def contrast(image: Any, value: float, text: Any) -> float:
    cell = image.cmap(image.norm(value))
    darker, lighter = sorted(map(luminance, (cell, to_rgb(text.get_color()))))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_numbers_stand_out_from_their_cells(theme: str, language: str) -> None:
    figure = why_position.draw(theme, language)
    for axes in figure.axes:
        (image,) = axes.images
        assert len(axes.texts) == 25
        for text in axes.texts:
            assert text.get_bbox_patch() is None
            column, row = text.get_position()
            value = image.get_array()[row, column]
            assert text.get_text() == f"{value:.2f}"
            assert contrast(image, value, text) >= LEAST


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_change_of_none_is_blank_and_written_as_0(theme: str) -> None:
    axes = position_sensitivity.draw(theme, "en").axes[0]
    (image,) = axes.images
    assert len(axes.texts) == 21
    for text in axes.texts:
        column, row = text.get_position()
        root = image.get_array()[row, column]
        blank = bool(np.ma.is_masked(root))
        assert text.get_text() == ("0" if blank else f"{root**2:.3f}")
        assert contrast(image, np.nan if blank else root, text) >= LEAST


def test_the_font_has_every_letter_of_the_figures() -> None:
    import font
    from fontTools.ttLib import TTFont

    known = TTFont(font.FILE).getBestCmap()
    assert {letter for letter in font.letters() if ord(letter) not in known} == set()


def test_luminance_goes_from_black_to_white() -> None:
    greys = [luminance((x / 10, x / 10, x / 10)) for x in range(11)]
    assert greys[0] == 0
    assert greys[-1] == pytest.approx(1)
    assert all(dark < light for dark, light in pairwise(greys))


def test_four_maps_are_large_enough_to_see_their_diagonals() -> None:
    figure = ideal_encoding.draw("light", "en")
    figure.canvas.draw()
    assert len(figure.axes) == 4
    for axes in figure.axes:
        width = axes.get_window_extent().width / figure.bbox.width
        assert width > 0.35
