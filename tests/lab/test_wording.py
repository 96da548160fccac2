"""Ranges and verbs as people read them."""

from posenc.lab.intervals import Interval
from posenc.lab.wording import do, ends, half_width
from posenc.report.numbers import signed


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
