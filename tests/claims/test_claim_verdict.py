"""From values by seed to an outcome."""

from dataclasses import replace

import pytest

from posenc.claims.claim import Cell, Claim, Expectation
from posenc.claims.verdict import Found, judge
from posenc.claims.words import TEXTS
from posenc.lab.measured import Values
from posenc.words import Words

A, B = Cell("a", "loss", 2), Cell("b", "loss", 2)


def claim(*expects: Expectation, learned: float | None = None) -> Claim:
    said = ("", "")
    return Claim("one", said, "", said, True, lambda size: {}, expects, learned=learned)


def told(found: Found) -> str:
    assert found.reason is not None
    return Words("en", TEXTS).of(found.reason)


def values(*by_seed: float, error: float = 0.0) -> Values:
    return Values(dict(enumerate(by_seed)), error)


@pytest.mark.parametrize(
    ("above", "below", "outcome"),
    [
        # The interval of 1.0, 1.1, 1.2 is 0.85 to 1.35.
        (0.8, None, "holds"),
        (0.9, None, "undecided"),
        (1.3, None, "undecided"),
        (1.4, None, "fails"),
        (None, 1.4, "holds"),
        (None, 1.3, "undecided"),
        (None, 0.8, "fails"),
        (0.8, 1.4, "holds"),
        (0.8, 1.3, "undecided"),
        (1.4, 1.5, "fails"),
    ],
)
def test_an_interval_lies_within_its_bounds_or_outside(
    above: float | None, below: float | None, outcome: str
) -> None:
    expects = Expectation(A, above=above, below=below)
    verdict = judge(claim(expects), {A: values(1.0, 1.1, 1.2)})
    assert verdict.outcome == outcome
    (found,) = verdict.found
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == pytest.approx((0.8516, 1.3484), abs=1e-4)


def test_differences_are_taken_seed_by_seed() -> None:
    measured = {A: values(1.0, 5.0, 9.0), B: values(0.9, 4.9, 8.9)}
    verdict = judge(claim(Expectation(A, B, above=0.09)), measured)
    assert verdict.outcome == "holds"
    # Seeds that one side lacks are no pairs.
    measured[B] = Values({0: 0.9, 2: 8.9, 7: 100.0})
    (found,) = judge(claim(Expectation(A, B, above=0.09)), measured).found
    assert found.values == pytest.approx((0.1, 0.1))


def test_all_must_hold_and_one_can_fail_it() -> None:
    holds, fails = Expectation(A, above=0), Expectation(A, below=0)
    open_one = Expectation(A, above=1.1)
    measured = {A: values(1.0, 1.1, 1.2)}
    assert judge(claim(holds, holds), measured).outcome == "holds"
    assert judge(claim(holds, open_one), measured).outcome == "undecided"
    assert judge(claim(holds, open_one, fails), measured).outcome == "fails"


def test_failing_is_asked_of_all_together() -> None:
    """One of twenty is outside at 95% by chance."""
    bound = Expectation(A, above=1.36)
    measured = {A: values(1.0, 1.1, 1.2)}
    assert judge(claim(bound), measured).outcome == "fails"
    within = Expectation(A, above=0)
    assert judge(claim(bound, *[within] * 19), measured).outcome == "undecided"


def test_seeds_that_agree_are_as_sure_as_their_examples() -> None:
    exact = replace(A, metric="exact")
    bound = claim(Expectation(exact, above=0.9))
    assert judge(bound, {exact: values(1.0, 1.0, 1.0)}).outcome == "holds"
    assert judge(bound, {exact: values(1.0, 1.0, 1.0, error=0.1)}).outcome == "undecided"


def test_what_was_not_learned_says_nothing_of_longer_inputs() -> None:
    near, far = Cell("a"), Cell("a", times=2)
    one = claim(Expectation(near, below=0.6), Expectation(far, below=0.1), learned=0.9)
    measured = {near: values(0.5, 0.5, 0.51), far: values(0.0, 0.0, 0.001)}
    verdict = judge(one, measured)
    assert [found.outcome for found in verdict.found] == ["holds", "undecided"]
    assert told(verdict.found[1]) == "a has not learned the task: 50% right, and 90% are needed"
    measured[near] = values(0.9, 0.95, 1.0)
    assert judge(one, measured).found[1].outcome == "holds"


def test_nothing_is_decided_from_too_little() -> None:
    one = claim(Expectation(A, B, above=0))
    reasons = [
        told(judge(one, measured).found[0])
        for measured in (
            {},
            {A: values(1.0, 2.0)},
            {A: values(1.0), B: values(0.0)},
            {A: values(1.0, float("inf")), B: values(0.0, 0.0)},
        )
    ]
    assert reasons == [
        "not measured",
        "not measured",
        "1 of the two seeds that it takes",
        "a run failed, or a loss is no finite number",
    ]
