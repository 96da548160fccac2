"""Verdicts that are read beside each other, and what would decide one."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from posenc.claims.claim import Cell, Claim, Expectation
from posenc.claims.family import together, would_decide
from posenc.claims.result import result
from posenc.claims.sentences import read_together, told
from posenc.claims.words import TEXTS
from posenc.lab.config import RunConfig
from posenc.lab.folder import MANIFEST, RESULTS, append_row
from posenc.words import Words

SAID = ("It is so.", "是这样。")
SAY = Words("en", TEXTS)


def judged(out: Path, *expects: Expectation, values: tuple[float, ...]) -> dict[str, Any]:
    """A result whose one arm has these losses by seed."""
    config = RunConfig("rotary")
    runs = [replace(config, seed=seed) for seed in range(len(values))]
    for run, value in zip(runs, values, strict=True):
        folder = out / "runs" / run.name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MANIFEST).write_text(json.dumps({"config": run.to_json()}))
        row = {"kind": "loss", "protocol": "targets", "length": 64, "loss": value, "spans": []}
        for one in (row, {"kind": "done", "seconds": 1.0}):
            append_row(folder / RESULTS, one)
    arms = {"rotary": config}
    claim = Claim("one", SAID, "nobody 2026", SAID, True, lambda size: arms, expects)
    return result(claim, "small", {"rotary": runs}, out)


def bound(above: float | None = None, below: float | None = None) -> Expectation:
    return Expectation(Cell("rotary", "loss"), above=above, below=below)


VALUES = (1.0, 1.1, 1.2, 1.05, 1.15)


def p_of(at: float) -> float:
    return float(stats.ttest_1samp(VALUES, at).pvalue)


def test_resampling_stands_beside_students_interval(tmp_path: Path) -> None:
    (one,) = judged(tmp_path, bound(above=0.9), values=VALUES)["expectations"]
    low, high = one["bootstrap"]
    # Of five seeds it is the narrower one.
    assert one["interval"]["low"] < low < 1.1 < high < one["interval"]["high"]


def test_p_is_that_of_the_bound_that_decided(tmp_path: Path) -> None:
    def only(*expects: Expectation) -> float:
        found = judged(tmp_path, *expects, values=VALUES)
        assert found["outcome"] in ("holds", "fails")
        return together({"one": found})["one"]

    assert only(bound(above=0.9)) == pytest.approx(p_of(0.9))
    # All must hold: the least sure of them counts.
    assert only(bound(above=0.9), bound(above=0.5)) == pytest.approx(p_of(0.9))
    assert only(bound(above=0.9, below=3.0)) == pytest.approx(p_of(0.9))
    assert only(bound(below=0.9)) == pytest.approx(p_of(0.9))
    # One of two is enough to fail, and there were two to try.
    assert only(bound(below=0.9), bound(above=0.5)) == pytest.approx(2 * p_of(0.9))


def test_many_are_read_together(tmp_path: Path) -> None:
    sure = judged(tmp_path, bound(above=0.5), values=VALUES)
    near = judged(tmp_path, bound(above=1.0), values=VALUES)
    undecided = judged(tmp_path, bound(above=1.1), values=VALUES)
    assert [one["outcome"] for one in (sure, near, undecided)] == ["holds", "holds", "undecided"]
    found = together({"sure": sure, "near": near, "open": undecided})
    assert found == pytest.approx({"sure": 2 * p_of(0.5), "near": p_of(1.0)})
    many = {f"near{n}": near for n in range(9)}
    assert together(many | {"sure": sure})["near0"] == pytest.approx(min(1.0, 9 * p_of(1.0)))
    lines = [*read_together(many | {"sure": sure}, SAY)]
    assert "of 10 that are decided 1 stand" in lines[0]
    assert "near0, near1" in lines[1]


def test_so_many_seeds_would_decide_it(tmp_path: Path) -> None:
    found = judged(tmp_path, bound(above=1.08), values=VALUES)
    (one,) = found["expectations"]
    assert one["outcome"] == "undecided"
    seeds = would_decide(one)
    assert seeds is not None
    rng, spread = np.random.default_rng(0), float(np.std(VALUES, ddof=1))
    drawn = rng.normal(1.1, spread, (2000, seeds))
    decided = stats.ttest_1samp(drawn, 1.08, axis=1).confidence_interval().low > 1.08
    assert decided.mean() == pytest.approx(0.8, abs=0.03)
    claim = Claim("one", SAID, "nobody 2026", SAID, True, lambda size: {}, ())
    assert f"{seeds} seeds would decide it" in "\n".join(told(claim, found, SAY))
    (exact,) = judged(tmp_path, bound(above=1.1), values=VALUES)["expectations"]
    assert would_decide(exact) is None


def test_a_claim_of_several_fails_by_more_seeds(tmp_path: Path) -> None:
    """Outside its bound, at 1 - 5% / how many expectations there are."""
    bounds = (bound(above=1.12), bound(above=0.5))
    first, _ = judged(tmp_path, *bounds, values=VALUES)["expectations"]
    assert first["outcome"] == "undecided"
    seeds, fewer = would_decide(first, 2), would_decide(first)
    assert seeds is not None
    assert fewer is not None
    assert seeds > fewer
    rng, spread = np.random.default_rng(0), float(np.std(VALUES, ddof=1))
    drawn = rng.normal(1.1, spread, (2000, seeds))
    decided = stats.ttest_1samp(drawn, 1.12, axis=1).confidence_interval(0.975).high < 1.12
    assert decided.mean() == pytest.approx(0.8, abs=0.03)
    # Within its bound, holding asks for 95%.
    (_, inside) = judged(tmp_path, *bounds, values=VALUES)["expectations"]
    assert would_decide(inside, 2) == would_decide(inside)
