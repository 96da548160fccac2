"""What a claim's numbers are, from the rows that runs leave."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from lab_runs import add_run

from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.measured import values
from posenc.claims.result import result
from posenc.lab.config import RunConfig
from posenc.lab.folder import RESULTS, append_row, read_run


def measured(folder: Path, times: float) -> dict[int, float]:
    run = read_run(folder)
    assert run is not None
    length = round(times * run.config.train_length)
    found = values(Cell("one", "position", times), [run], length)
    assert found is not None
    return dict(found.by_seed)


def test_by_position_the_last_half_of_a_length_counts(tmp_path: Path) -> None:
    folder = add_run(tmp_path, "alibi", 3, (1.0, 2.0, 3.0, 4.0))
    losses = [9.0, 9.0, 1.0, 2.0, 5.0, 5.0, 5.0, 6.0, *[0.0] * 24]
    row = {"kind": "by_position", "edges": [*range(0, 513, 16)], "loss": losses}
    append_row(folder / RESULTS, row | {"length": 512})
    append_row(folder / RESULTS, {"kind": "done", "seconds": 1.0})
    assert measured(folder, 1) == {3: pytest.approx(1.5)}
    assert measured(folder, 2) == {3: pytest.approx(5.25)}
    assert measured(folder, 8) == {3: 0.0}


def test_a_loss_that_is_no_number_is_not_left_out(tmp_path: Path) -> None:
    folder = add_run(tmp_path, "alibi", 3, (1.0, 2.0, 3.0, 4.0))
    row = {"kind": "loss", "protocol": "windows", "length": 512, "tokens": 8, "loss": None}
    append_row(folder / RESULTS, row)
    append_row(folder / RESULTS, {"kind": "done", "seconds": 1.0})
    assert measured(folder, 1) == {3: math.inf}


def test_a_result_keeps_what_it_was_judged_by(tmp_path: Path) -> None:
    all_tested, one_not = (1.0,) * 4, (1.0, None, 1.0, 1.0)
    found = [
        read_run(add_run(tmp_path, "alibi", seed, losses, reason="out of memory"))
        for seed, losses in enumerate((all_tested, one_not))
    ]
    configs = {"alibi": [run.config for run in found if run is not None]}
    said = ("", "")

    def arms(size: Size) -> dict[str, RunConfig]:
        return {"alibi": configs["alibi"][0]}

    for metric, kinds in (("position", {"loss", "by_position"}), ("loss", {"loss"})):
        expects = (Expectation(Cell("alibi", metric, 8), above=1.5),)
        claim = Claim("one", said, "", said, True, arms, expects)
        told = result(claim, "small", configs, tmp_path)
        assert {row["kind"] for row in told["arms"]["alibi"]["rows"]["0"]} == kinds
        assert {row["kind"] for row in told["arms"]["alibi"]["rows"]["1"]} == {*kinds, "missing"}
        # The last half of the longest windows loses 2 nats, their last tokens 1.
        assert told["outcome"] == ("holds" if metric == "position" else "fails")


def test_a_length_that_a_run_could_not_serve_is_not_left_out(tmp_path: Path) -> None:
    """As where memory ran out for one of the seeds."""
    found = []
    for seed in range(3):
        run = read_run(add_run(tmp_path, "alibi", seed, (1.0,) * 4))
        assert run is not None
        rows = [row for row in run.rows if row.get("length") != 512]
        lacking = {"kind": "missing", "length": 512, "reason": "OutOfMemoryError: no"}
        found.append(run if seed else replace(run, rows=[*rows, lacking]))
    for metric in ("loss", "windows"):
        seen = values(Cell("alibi", metric, 8), found, 512)
        assert seen is not None
        assert {seed: math.isfinite(one) for seed, one in seen.by_seed.items()} == {
            0: False, 1: True, 2: True
        }  # fmt: skip
    # Where none could, nothing was measured.
    assert values(Cell("alibi", "loss", 8), found[:1], 512) is None
