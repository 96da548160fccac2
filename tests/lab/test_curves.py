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
