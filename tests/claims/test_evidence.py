"""What all results know: each run once, every number with its interval, nothing beyond a gate."""

from dataclasses import replace
from typing import Any

import pytest
from scipy import stats

from posenc.claims import Claim, Expectation, claims
from posenc.claims.claim import Cell, Size
from posenc.claims.evidence import arms, evidence
from posenc.claims.kept import kept
from posenc.lab.arms import Arm, told_apart
from posenc.lab.config import RunConfig

SHARES = {10: (0.9, 1.0, 0.95), 20: (0.5, 0.7, 0.6)}


def of(size: Size) -> dict[str, RunConfig]:
    made = RunConfig("alibi", task="copy", train_length=10, test_lengths=(10, 20))
    return {"alibi": made, "later": replace(made, encoding="rotary", steps=0, base="alibi")}


MADE = Claim(
    name="made",
    says=("It is.", "是。"),
    source="nobody 2026",
    differs=("No.", "不。"),
    agreed=False,
    arms=of,
    expects=(Expectation(Cell("alibi"), above=0.5),),
)


def rows(seed: int, shares: dict[int, tuple[float, ...]]) -> list[dict[str, Any]]:
    """Of 100 examples at each length."""
    return [
        {
            "kind": "accuracy", "length": n, "examples": 100, "exact": round(100 * found[seed]),
            "token": found[seed], "chance": 0.1, "loss": found[seed] or None,
        }
        for n, found in shares.items()
    ]  # fmt: skip


def result(
    shares: dict[int, tuple[float, ...]] = SHARES, seeds: int = 3, **over: Any
) -> dict[str, Any]:
    configs = {label: config.to_json() for label, config in of("small").items()}
    one = {"runs": seeds, "done": seeds, "failed": 0} | over
    by_seed = {str(seed): rows(seed, shares) for seed in range(seeds)}
    return {
        "size": "small",
        "arms": {label: {"config": c, "rows": by_seed} | one for label, c in configs.items()},
    }


def alibi(*found: dict[str, Any], claim: Claim = MADE) -> Arm:
    every = evidence((claim, one) for one in found)
    assert [arm.encoding for arm in every] == ["alibi", "rotary"]
    return every[0]


def test_an_interval_is_students_over_seeds() -> None:
    found = alibi(result()).interval("loss", 20)
    low, high = stats.t.interval(0.95, 2, 0.6, 0.1 / 3**0.5)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((low, high))


def test_runs_that_two_claims_share_count_once() -> None:
    once, more = alibi(result(seeds=2)), alibi(result(seeds=2), result())
    assert [len(once.rows), len(more.rows)] == [2, 3]
    assert more.values("exact", 10).by_seed == {0: 0.9, 1: 1.0, 2: 0.95}


def test_a_run_made_again_by_a_later_version_counts_once() -> None:
    """Which writes one setting more, by which the names of runs are others."""
    again = result({10: (0.8, 0.8, 0.8)})
    for arm, base in (("alibi", ""), ("later", "alibi-s0-0123456789ab")):
        again["arms"][arm]["config"] |= {"settings": "ALiBi(heads=4, more=0)", "base": base}
    assert alibi(result(), again).values("exact", 10).by_seed == {0: 0.8, 1: 0.8, 2: 0.8}


def test_what_a_run_began_with_tells_it_apart_where_that_is_not_there() -> None:
    """As where a budget ended before the other arm, and where it began with nothing."""
    found = [result(), result()]
    for one, base in zip(found, ("alibi-s0-0123456789ab", ""), strict=True):
        one["arms"] = {"later": one["arms"]["later"]}
        one["arms"]["later"]["config"]["base"] = base
    assert len(evidence((MADE, one) for one in found)) == 2


def test_weights_of_another_arm_are_told_of() -> None:
    later = arms(MADE, result())["later"]
    assert later.base is not None
    assert later.base.encoding == "alibi"
    assert not later.trained


def test_an_arm_learned_what_is_nearer_to_all_than_to_chance() -> None:
    assert alibi(result()).learned
    assert not alibi(result({10: (0.5, 0.6, 0.5), 20: (0.9, 0.9, 0.9)})).learned
    assert not alibi(result(), claim=replace(MADE, learned=0.97)).learned


def test_an_arm_whose_runs_all_failed_learned_nothing() -> None:
    arm = alibi(result())
    assert not replace(arm, rows={}, failed=arm.runs).learned


def test_nothing_is_told_of_survivors() -> None:
    assert alibi(result(failed=1)).interval("exact", 10) is None
    lost = alibi(result({10: (0.9, 0.0, 0.9), 20: (0.9, 0.9, 0.9)}))
    assert lost.interval("loss", 10) is None
    assert lost.interval("loss", 20) is not None


def test_rows_of_other_kinds_are_left_alone() -> None:
    found = result()
    for one in found["arms"].values():
        one["rows"]["0"] += [{"kind": "attention", "at": 1}, {"kind": "missing", "length": 40}]
    assert alibi(found).lengths("exact") == [10, 20]
    assert alibi(found).lengths("windows") == []


def test_arms_of_one_encoding_are_told_apart_by_their_training() -> None:
    every = evidence(
        (claim, found) for name, claim in claims().items() if (found := kept(name)) is not None
    )
    # Those that were trained further differ in more.
    own = [arm for arm in every if not arm.config.get("base")]
    of_text = [arm for arm in own if arm.task == "text" and arm.encoding == "rotary"]
    assert {"rotary, heads=2", "rotary, heads=4"} <= {*told_apart(of_text)}
    assert len({repr(sorted(arm.config.items(), key=str)) for arm in every}) == len(every)
    assert all(arm.kind for arm in every)


def test_drawn_positions_and_other_peoples_models_are_always_told() -> None:
    config = RunConfig("rotary").to_json() | {"steps": 0}
    drawn = Arm(config | {"positions": "random(64)", "steps": 9}, {}, 0, 0)
    assert told_apart([drawn]) == ["rotary, positions=random(64)"]
    counted = Arm(config | {"steps": 9}, {}, 0, 0)
    assert told_apart([counted, drawn]) == ["rotary", "rotary, positions=random(64)"]
    assert told_apart([Arm(config | {"model": "a_model"}, {}, 0, 0)]) == ["rotary, model=a_model"]
