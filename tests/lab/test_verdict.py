"""What the losses of a study allow to say."""

import dataclasses
import math
import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from posenc.lab.aggregate import Study, study_of
from posenc.lab.config import RunConfig
from posenc.lab.folder import Run
from posenc.lab.intervals import Interval, Noise
from posenc.lab.verdict import (
    BROKEN,
    DEGRADED,
    DIVERGED,
    HELD,
    UNDECIDED,
    UNMEASURED,
    Judgement,
    decide,
    judge,
    ranking,
)
from posenc.words import Saying

ALONE = Noise(floor=0.0, share=0.0, groups=1)
LENGTHS = (64, 128, 512)


@pytest.mark.parametrize(
    ("near", "far", "category", "reason"),
    [
        (Interval(0.0, 0.01), Interval(0.0, 0.04), HELD, None),
        (Interval(0.0, 0.01), Interval(0.0, 0.06), UNDECIDED, Saying("holds or degrades")),
        (Interval(0.2, 0.1), Interval(0.9, 0.2), DEGRADED, None),
        (Interval(0.9, 0.2), Interval(1.5, 0.2), UNDECIDED, Saying("degrades or breaks")),
        (Interval(1.5, 0.2), Interval(1.5, 0.2), BROKEN, None),
        (Interval(1.5, 0.2), Interval(0.0, 0.01), BROKEN, None),
        (Interval(0.5, 2.0), Interval(0.5, 2.0), UNDECIDED, Saying("holds or degrades or breaks")),
        (Interval(-0.2, 0.1), Interval(-0.3, 0.1), HELD, None),
    ],
)
def test_a_category_needs_its_whole_interval(
    near: Interval, far: Interval, category: str, reason: Saying | None
) -> None:
    assert judge(near, far) == Judgement(category, near, far, reason)


def fake(
    encoding: str, seed: int, losses: Mapping[int, float | None], steps: int = 800, **rows: str
) -> Run:
    """A finished run with the same loss in both protocols."""
    config = RunConfig(encoding=encoding, seed=seed, test_lengths=LENGTHS, steps=steps)
    found = [
        {"kind": "loss", "protocol": protocol, "length": length, "loss": loss}
        for length, loss in losses.items()
        for protocol in ("windows", "targets")
    ]
    manifest = {"started": "2026-01-01"} | rows
    done = {"kind": "done", "seconds": 1.0}
    return Run(Path(config.name), config, manifest, [*found, done], "done", [])


def studied(table: dict[str, list[tuple[float, float, float]]]) -> Study:
    """A study of `table[encoding][seed] = losses at 64, 128 and 512`."""
    runs = [
        fake(name, seed, dict(zip(LENGTHS, losses, strict=True)))
        for name, by_seed in table.items()
        for seed, losses in enumerate(by_seed)
    ]
    found = study_of(runs)
    assert found is not None
    return found


def test_the_known_picture_is_decided_from_two_seeds() -> None:
    found = studied({
        "alibi": [(1.728, 1.729, 1.734), (1.691, 1.695, 1.699)],
        "learned": [(1.692, 3.698, 3.708), (1.743, 3.654, 3.609)],
        "none": [(2.206, 2.353, 2.449), (2.222, 2.372, 2.467)],
        "t5": [(1.828, 2.117, 2.646), (1.845, 2.126, 2.704)],
    })  # fmt: skip
    verdict = decide(found)
    categories = {name: one.category for name, one in verdict.judgements.items()}
    assert categories == {"alibi": HELD, "learned": BROKEN, "none": DEGRADED, "t5": DEGRADED}
    assert verdict.near == 128
    last = verdict.rankings[512]
    assert (last.best, last.ties, set(last.worse)) == ("alibi", (), {"learned", "none", "t5"})
    assert set(verdict.rankings[64].ties) == {"learned", "t5"}
    assert verdict.against_none[512]["learned"].low > 0
    assert verdict.against_none[512]["alibi"].high < 0


def test_comparisons_are_paired_by_seed() -> None:
    # The seeds differ by 1 nat, the encodings by 0.5 in each seed.
    found = studied({
        "a": [(1.0, 1.0, 1.0), (2.0, 2.0, 2.0)],
        "b": [(1.5, 1.5, 1.5), (2.5, 2.5, 2.51)],
    })  # fmt: skip
    gap = found.gap("targets", "b", "a", 512)
    assert gap is not None
    assert gap.values == pytest.approx((0.5, 0.51))
    assert gap.models == 2


def test_equal_encodings_are_tied() -> None:
    found = studied({
        "a": [(1.00, 1.10, 1.20), (1.02, 1.12, 1.25)],
        "b": [(1.01, 1.11, 1.21), (1.00, 1.10, 1.23)],
        "c": [(2.00, 2.50, 3.00), (2.02, 2.52, 3.05)],
    })  # fmt: skip
    ranked = ranking(found, 512)
    assert ranked is not None
    assert {ranked.best, *ranked.ties} == {"a", "b"}
    assert ranked.worse == ("c",)
    # What can be told apart is larger than what could not, and than the interval's half width.
    (tie,) = ranked.ties
    gap = ranked.behind[tie]
    assert abs(gap.mean) < gap.half < ranked.shown[tie] < ranked.behind["c"].mean


def test_more_comparisons_ask_for_more() -> None:
    few = {"a": [(1.0, 1.0, 1.0), (1.01, 1.0, 1.0)], "b": [(1.1, 1.1, 1.1), (1.1, 1.1, 1.11)]}
    many = few | {name: [(3.0, 3.0, 3.0), (3.01, 3.0, 3.01)] for name in "cdefgh"}
    narrow, wide = ranking(studied(few | {"c": many["c"]}), 64), ranking(studied(many), 64)
    assert narrow is not None
    assert wide is not None
    assert wide.behind["b"].half > narrow.behind["b"].half


def test_what_is_best_in_truth_is_seldom_told_worse() -> None:
    """Of six that are all but equal, where the lowest is chosen by the losses that judge it."""
    draw, studies, wrong = random.Random(0), 120, 0
    for _ in range(studies):
        table = {name: [(draw.gauss(2.0, 0.01),) * 3 for _ in range(10)] for name in "bcdef"}
        best = {"a": [(draw.gauss(2.0 - 1e-6, 0.01),) * 3 for _ in range(10)]}
        found = ranking(studied(best | table), 64)
        assert found is not None
        wrong += "a" in found.worse
    assert wrong <= 0.05 * studies


def test_one_seed_is_neither_judged_nor_ranked() -> None:
    verdict = decide(studied({"a": [(1.0, 1.0, 1.0)], "b": [(2.0, 2.0, 2.0)]}))
    assert verdict.rankings == {}
    assert {one.category for one in verdict.judgements.values()} == {UNMEASURED}
    assert verdict.losses["targets", 64] == {}


@pytest.mark.parametrize("loss", [None, math.nan, math.inf, "NaN"])
def test_a_diverged_seed_is_never_averaged_away(loss: float | None) -> None:
    good = {64: 1.0, 128: 1.0, 512: 1.0}
    runs = [fake("a", 0, good), fake("a", 1, good), fake("b", 0, good)]
    found = study_of([*runs, fake("b", 1, good | {512: loss})])
    assert found is not None
    assert found.diverged("b") == (1,)
    assert found.sample("targets", "b", 512) is None
    judgement = decide(found).judgements["b"]
    assert judgement.category == DIVERGED
    assert judgement.reason == Saying("not_finite", {"runs": 1, "total": 2})


def test_a_loss_that_is_not_finite_at_a_length_is_diverged() -> None:
    run = fake("a", 0, {64: 1.0})
    reason = "FloatingPointError: the loss is not a finite number"
    run.rows.insert(0, {"kind": "missing", "protocol": "targets", "length": 512, "reason": reason})
    found = study_of([run])
    assert found is not None
    assert found.losses("targets", "a", 512) == {0: math.inf}


def test_a_missing_length_keeps_its_reason() -> None:
    run = fake("a", 0, {64: 1.0, 128: 1.0})
    run.rows.insert(0, {"kind": "missing", "protocol": "targets", "length": 512, "reason": "short"})
    found = study_of([run])
    assert found is not None
    judgement = decide(found).judgements["a"]
    reason = Saying("no_loss", {"length": 512, "why": "short"})
    assert (judgement.category, judgement.reason) == (UNMEASURED, reason)


def test_other_settings_are_never_mixed() -> None:
    old = fake("a", 0, {64: 9.0}, steps=100, started="2025-01-01")
    new = fake("a", 0, {64: 1.0}, steps=800, started="2026-01-01")
    found = study_of([new, old])
    assert found is not None
    assert found.foreign == (old,)
    assert found.losses("targets", "a", 64) == {0: 1.0}


def test_an_encoding_with_new_settings_is_another_encoding() -> None:
    old = fake("a", 0, {64: 9.0}, started="2025-01-01")
    config = dataclasses.replace(old.config, settings="A(size=2)")
    new = dataclasses.replace(fake("a", 0, {64: 1.0}), config=config)
    found = study_of([new, old])
    assert found is not None
    assert found.foreign == (old,)
    assert found.losses("targets", "a", 64) == {0: 1.0}


def test_the_last_row_of_a_resumed_run_counts() -> None:
    run = fake("a", 0, {64: 1.0})
    run.rows.insert(2, {"kind": "loss", "protocol": "targets", "length": 64, "loss": 1.5})
    found = study_of([run])
    assert found is not None
    assert found.losses("targets", "a", 64) == {0: 1.5}


def test_unequal_seeds_are_compared_on_the_common_ones() -> None:
    losses = {64: 1.0, 128: 1.0, 512: 1.0}
    runs = [fake("a", seed, losses) for seed in (0, 1, 2)]
    found = study_of([*runs, *(fake("b", seed, losses) for seed in (1, 2, 3))])
    assert found is not None
    gap = found.gap("targets", "a", "b", 64)
    assert gap is not None
    assert gap.values == (0.0, 0.0)


def test_spans_pair_by_span() -> None:
    runs = []
    for seed in (0, 1):
        run = fake("a", seed, {64: 1.0, 512: 1.5})
        for row in run.rows:
            if row.get("protocol") == "targets":
                row["spans"] = [row["loss"] - 0.5, row["loss"] + 0.5]
        runs.append(run)
    found = study_of(runs)
    assert found is not None
    rise = found.rise("targets", "a", 512)
    assert rise is not None
    # Both spans rise by the same 0.5, so the text leaves no doubt about the rise.
    assert rise.spans == ((0.5, 0.5), (0.5, 0.5))
    assert rise.text_error == 0.0
    loss = found.sample("targets", "a", 512)
    assert loss is not None
    assert loss.spans == ()


def test_classes_are_called_by_name_unless_two_share_it() -> None:
    found = studied({"x.y:Mine": [(1, 1, 1)], "z:Same": [(1, 1, 1)], "w:Same": [(1, 1, 1)]})
    assert [found.label(name) for name in found.encodings] == ["w:Same", "Mine", "z:Same"]
