"""What is said of numbers: who is best, what is a tie, and what beats a sliding window."""

import math
from collections.abc import Mapping
from typing import Any

import pytest
from scipy import stats

from posenc.extend.cells import Cell
from posenc.extend.intervals import differences
from posenc.extend.summary import found
from posenc.extend.verdict import verdict
from posenc.lab.intervals import Interval

LONG = 512


def row(**result: Any) -> dict[str, Any]:
    return {"result": result, "seconds": 1.0, "peak_mb": None}


def data(
    losses: Mapping[str, list[float | None]],
    sliding: list[float] | None = None,
    short: Mapping[str, list[float]] | None = None,
    keys: Mapping[str, list[bool]] | None = None,
) -> dict[str, Any]:
    """A report of these losses on fixed targets, one for each span."""
    rows = {}
    for name, spans in losses.items():
        for index, loss in enumerate(spans):
            window = row(edges=[0, LONG], bins=[loss], loss=loss, targets=loss)
            rows[Cell(name, "windows", LONG, index)] = window
    for index, loss in enumerate(sliding or ()):
        window = row(edges=[0, LONG], bins=[loss], loss=loss, targets=loss)
        rows[Cell("none", "sliding", LONG, index)] = window
    for name, spans in (short or {}).items():
        for index, loss in enumerate(spans):
            rows[Cell(name, "short", 64, index)] = row(loss=loss)
    for name, tries in (keys or {}).items():
        for index, exact in enumerate(tries):
            rows[Cell(name, "passkey", LONG, index, 0.5)] = row(exact=exact, ranks=[0, 3])
            rows[Cell(name, "control", 64, index)] = row(exact=False, ranks=[9])
    told = {"to": [LONG], "trained": 128, "short": 64}
    return told | found(rows, tuple(losses))


def test_who_is_clearly_ahead_is_the_best_and_nobody_ties() -> None:
    decided = verdict(data({"none": [8.0, 8.1, 7.9], "yarn": [2.0, 2.1, 1.9]}))
    assert decided["best"] == "yarn"
    assert decided["ties"] == []
    assert decided["sentences"][0] == (
        "yarn has the lowest loss at 512 tokens, 2.000, and every other method is behind it"
    )


def test_what_spans_cannot_tell_apart_is_a_tie() -> None:
    decided = verdict(
        data({"none": [8.0, 8.3, 8.1], "yarn": [2.0, 2.4, 1.9], "ntk": [2.1, 2.3, 2.0]})
    )
    assert decided["ties"] == ["ntk"]
    assert "3 spans cannot tell ntk from it: a tie." in decided["sentences"]
    alike = verdict(data({"none": [2.0, 2.4, 1.9], "ntk": [2.1, 2.3, 2.0]}))
    assert alike["sentences"][0] == "At 512 tokens no method is better than another"


def test_one_span_decides_nothing() -> None:
    decided = verdict(data({"none": [8.0], "yarn": [2.0]}, sliding=[5.0]))
    assert decided["ties"] == ["none"]
    assert decided["better"] == decided["worse"] == decided["alike"] == []
    assert "nothing says how much of this is luck" in decided["sentences"][1]


def test_methods_are_held_to_the_sliding_window_span_by_span() -> None:
    # Spans differ by far more than methods do.
    losses = {"none": [8.0, 9.0, 7.0], "yarn": [3.9, 4.9, 2.91], "ntk": [4.02, 4.97, 3.0]}
    decided = verdict(data(losses, sliding=[4.0, 5.0, 3.0]))
    assert decided["better"] == ["yarn"]
    assert decided["worse"] == ["none"]
    assert decided["alike"] == ["ntk"]
    assert (
        "Better than that: yarn. Worse: none. Not to be told from it: ntk."
        in (decided["sentences"])
    )


def test_a_loss_that_is_no_number_is_last_and_never_decided() -> None:
    decided = verdict(data({"none": [None, 2.0], "yarn": [2.5, 2.6]}, sliding=[2.0, 2.1]))
    assert decided["best"] == "yarn"
    assert "none" not in [*decided["better"], *decided["worse"], *decided["alike"]]


def test_passkeys_and_the_price_on_short_texts_are_told() -> None:
    losses = {"none": [8.0, 8.1], "yarn": [2.0, 2.1]}
    short = {"none": [2.0, 2.5], "yarn": [2.2, 2.7001]}
    keys = {"none": [False, False], "yarn": [True, False]}
    sentences = verdict(data(losses, short=short, keys=keys))["sentences"]
    assert "Passkeys found at 512 tokens: yarn 1 of 2; not one by none." in sentences
    assert "Where none was hidden, 0 of 4 were guessed." in sentences
    assert "On texts of 64 tokens, which it could read before, they cost: yarn +0.200." in sentences


def test_nothing_measured_says_so() -> None:
    assert verdict(data({"none": []}))["sentences"] == ["Nothing is measured yet"]


def test_one_name_alone_has_students_interval() -> None:
    values = [0.1, 0.4, 0.3, 0.2]
    found = differences({"a": values})["a"]
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_intervals_of_several_hold_together_and_none_is_tinier_than_luck() -> None:
    spread, agreeing = [0.1, 0.4, 0.3], [0.2, 0.2, 0.2]
    found = differences({"a": spread, "b": agreeing})
    a, b = found["a"], found["b"]
    assert a is not None
    assert b is not None
    # Two degrees of freedom of its own and two of all, for two comparisons at 97.5%.
    own = sum((x - 0.8 / 3) ** 2 for x in spread) / 2
    assert a.half == pytest.approx(stats.t.ppf(1 - 0.05 / 4, 4) * math.sqrt(own / 3))
    assert b.half == pytest.approx(stats.t.ppf(1 - 0.05 / 4, 4) * math.sqrt(own / 4 / 3))
    alike = differences({"a": spread, "b": [0.0, 0.0, 0.0]})
    assert alike["a"] == differences({"a": spread})["a"]
    assert alike["b"] == Interval(0.0, 0.0)
    assert differences({"a": [0.1], "b": [0.2]}) == {"a": None, "b": None}
