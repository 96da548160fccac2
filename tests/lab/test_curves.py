"""Curves that are drawn."""

import re

from posenc.lab.figures import Curve, by_length


def test_values_far_above_a_guess_do_not_flatten_the_picture() -> None:
    curves = [
        Curve("calm", 0, (64.0, 512.0), (1.8, 1.9)),
        Curve("wild", 1, (64.0, 512.0), (1.8, 80.0)),
    ]
    svg = by_length(curves, 64, (64, 512), "alt", mark="", axis="")
    ticks = [float(found) for found in re.findall(r">(\d+(?:\.\d+)?)</text>", svg)]
    assert max(tick for tick in ticks if tick not in (64, 512)) < 7
    assert "wild \N{UPWARDS ARROW}" in svg


def test_names_with_mathematics_stay_as_they_are() -> None:
    svg = by_length(
        [Curve("$x_1$", 0, (64.0, 128.0), (1.8, 1.9))], 64, (64, 128), "alt", mark="", axis=""
    )
    assert ">$x_1$<" in svg
