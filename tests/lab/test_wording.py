"""Ranges as people read them, and texts that say the same in both languages."""

import re

import pytest
from prose import HAN, english

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
    fields = [{*re.findall(r"{(\w+)", text)} for text in TEXTS[key]]
    said, chinese = (re.sub(r"{[^}]*}", "", text) for text in TEXTS[key])
    # A verb or an ending alone needs the names that it belongs to.
    assert fields[0] - {"names", "others"} == fields[1] - {"names", "others"}
    assert english(chinese) == []
    assert not HAN.search(said)
    assert chinese != said or not re.search("[a-z]{3}", said)
