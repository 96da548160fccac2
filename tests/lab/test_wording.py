"""Ranges as people read them, and texts that say the same in both languages."""

import pytest
from prose import check_pair

from posenc.lab.intervals import Interval
from posenc.lab.wording import ends, half_width
from posenc.lab.words import TEXTS
from posenc.report.numbers import signed
from posenc.words import Words


def test_signs_and_ranges_as_people_read_them() -> None:
    assert [signed(x) for x in (0.5, 0.0, -0.5, 0.001)] == [
        "+0.50",
        "0.00",
        "\N{MINUS SIGN}0.50",
        "0.00",
    ]
    assert half_width(Interval(1.0, 0.123)) == "±0.12"
    assert half_width(Interval(1.0, 0.001)) == "±<0.01"
    say = Words("en", TEXTS)
    assert ends(Interval(0.5, 0.2), say) == "0.30 to 0.70"
    assert ends(Interval(0.1, 0.097), say) == "0.003 to 0.197"
    assert ends(Interval(0.5, 0.2), Words("zh", TEXTS)) == "0.30 至 0.70"


@pytest.mark.parametrize("key", TEXTS)
def test_both_languages_say_everything(key: str) -> None:
    # A verb or an ending alone needs the names that it belongs to.
    check_pair(*TEXTS[key], endings=("names", "others"))
