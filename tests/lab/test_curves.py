"""Curves that are drawn."""

import re
from pathlib import Path
from typing import Any

from posenc.lab.aggregate import study_of
from posenc.lab.config import RunConfig
from posenc.lab.curves import position_curves
from posenc.lab.figures import Curve, by_length
from posenc.lab.folder import Run


def run_of(seed: int, loss: float | None) -> Run:
    """A run that ended, with this loss in windows of 64 and 128 bytes; None: no finite number."""
    rows: list[dict[str, Any]] = [
        {"kind": "loss", "protocol": "windows", "length": n, "loss": loss} for n in (64, 128)
    ]
    if loss is not None:
        bins = {"edges": [0, 64, 128], "loss": [loss, loss]}
        rows.append({"kind": "by_position", "length": 128} | bins)
    config = RunConfig("rotary", seed=seed, test_lengths=(64, 128))
    return Run(Path(f"s{seed}"), config, {}, [*rows, {"kind": "done"}], "done", [])


def test_no_line_by_position_is_of_the_survivors() -> None:
    study = study_of([run_of(0, 2.0), run_of(1, 3.0)])
    assert study is not None
    assert [curve.y for curve in position_curves(study)] == [(2.5, 2.5)]
    study = study_of([run_of(0, 2.0), run_of(1, None)])
    assert study is not None
    assert [curve.y for curve in position_curves(study)] == [()]


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


def test_numbers_and_names_beside_the_curves_are_whole() -> None:
    from matplotlib.textpath import TextPath

    # In a narrow range numbers have up to four decimals.
    curve = Curve("window(width=16) + rotary", 0, (64.0, 512.0), (4.311, 4.331))
    svg = by_length([curve], 64, (64, 512), "alt", mark="", axis="")
    words = re.findall(r'<text style="([^"]*)"[^>]*? x="([\d.]+)"[^>]*>([^<]+)</text>', svg)
    assert {"4.3125", "window(widt\N{HORIZONTAL ELLIPSIS}"} <= {word for *_, word in words}
    (width,) = re.findall(r'viewBox="0 0 ([\d.]+) ', svg)
    for style, x, word in words:
        long = TextPath((0, 0), word, size=9.5).get_extents().width
        left = float(x) - (long if "text-anchor: end" in style else 0)
        assert left >= 0, word
        if "text-anchor" not in style:
            assert left + long <= float(width), word
