"""Curves that are drawn, and the places of names at their ends."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc.lab.figures import Curve, by_length, spread


def test_values_far_above_a_guess_do_not_flatten_the_picture() -> None:
    curves = [
        Curve("calm", 0, (64.0, 512.0), (1.8, 1.9)),
        Curve("wild", 1, (64.0, 512.0), (1.8, 80.0)),
    ]
    svg = by_length(curves, 64, (64, 512), "alt")
    ticks = [float(found) for found in re.findall(r">(\d+(?:\.\d+)?)</text>", svg)]
    assert max(tick for tick in ticks if tick not in (64, 512)) < 7
    assert "wild \N{UPWARDS ARROW}" in svg


def test_names_with_mathematics_stay_as_they_are() -> None:
    svg = by_length([Curve("$x_1$", 0, (64.0, 128.0), (1.8, 1.9))], 64, (64, 128), "alt")
    assert ">$x_1$<" in svg


@given(
    st.lists(st.floats(0, 100), min_size=1, max_size=12),
    st.floats(0.1, 20),
)
def test_spread_keeps_order_distance_and_bounds(wanted: list[float], gap: float) -> None:
    placed = spread(wanted, gap, 0.0, 100.0)
    gap = min(gap, 100.0 / max(len(wanted) - 1, 1))
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    heights = [placed[i] for i in order]
    assert all(b - a >= gap - 1e-6 for a, b in pairwise(heights))
    assert heights[0] >= -1e-6
    assert heights[-1] <= 100 + 1e-6


def test_spread_leaves_what_is_free_where_it_is() -> None:
    assert spread([10.0, 50.0, 90.0], 5.0, 0.0, 100.0) == [10.0, 50.0, 90.0]
    assert spread([50.0, 50.0], 10.0, 0.0, 100.0) == pytest.approx([45.0, 55.0])
