"""What pages are made of: places of names, numbers, markup."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc.report.marks import short, spread
from posenc.report.markup import Markup, tag
from posenc.report.numbers import number


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


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1.234, "1.23"),
        (-0.5, "\N{MINUS SIGN}0.50"),
        (-0.001, "0.00"),
        (None, "\N{EN DASH}"),
        (float("nan"), "diverged"),
    ],
)
def test_numbers_as_people_read_them(value: float | None, shown: str) -> None:
    assert number(value) == shown


def test_markup_escapes_all_but_markup() -> None:
    assert tag("p", "<b>", title='"') == '<p title="&quot;">&lt;b&gt;</p>'
    assert tag("p", Markup("<b>x</b>"), None, ["y", 1], class_="z") == '<p class="z"><b>x</b>y1</p>'
    assert isinstance(tag("p"), Markup)


def test_a_long_name_is_cut_to_the_room_that_its_letters_take() -> None:
    assert short("self_extend", 12) == "self_extend"
    assert short("none (tuned 2 steps)", 12) == "none (tuned…"
    # A Chinese letter is as wide as two.
    assert short("none（训练 2 步）", 12) == "none（训练…"
    assert short("滑动窗口", 12) == "滑动窗口"
