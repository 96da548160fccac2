"""Numbers as people read them, and strings as markup."""

import pytest

from posenc.lab.intervals import Interval
from posenc.lab.markup import Markup, tag
from posenc.lab.wording import do, ends, half_width, number, signed


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


def test_signs_and_ranges_as_people_read_them() -> None:
    assert [signed(x) for x in (0.5, 0.0, -0.5, 0.001)] == [
        "+0.50",
        "0.00",
        "\N{MINUS SIGN}0.50",
        "0.00",
    ]
    assert half_width(Interval(1.0, 0.123)) == "±0.12"
    assert half_width(Interval(1.0, 0.001)) == "±<0.01"
    assert ends(Interval(0.5, 0.2)) == "0.30 to 0.70"
    assert ends(Interval(0.1, 0.097)) == "0.003 to 0.197"
    assert do("holds", ["a"]) == "a holds"
    assert do("holds", ["a", "b"]) == "a and b hold"
    assert do("breaks", list("abcde")) == "5 encodings break"


def test_markup_escapes_all_but_markup() -> None:
    assert tag("p", "<b>", title='"') == '<p title="&quot;">&lt;b&gt;</p>'
    assert tag("p", Markup("<b>x</b>"), None, ["y", 1], class_="z") == '<p class="z"><b>x</b>y1</p>'
    assert isinstance(tag("p"), Markup)
