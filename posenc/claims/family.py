"""Verdicts read beside each other: which stand when all are looked at, and what would decide."""

import math
from collections.abc import Mapping
from statistics import stdev
from typing import Any

from scipy import stats

from posenc.lab.intervals import LEVEL
from posenc.lab.statistics import holm, seeds_needed, standard_error

Kept = Mapping[str, Any]


def together(results: Mapping[str, Kept]) -> dict[str, float]:
    """p of each claim that holds or fails, as it is to be read beside all the others (Holm).

    The p of an expectation is that of Student's t, two-sided, that the value lies on the bound. A
    claim holds by the largest of its p, since each must hold, and fails by the least of those that
    fail, times how many there are.
    """
    found = {name: _p(one) for name, one in results.items() if one["outcome"] != "undecided"}
    return dict(zip(found, holm(list(found.values())), strict=True))


def would_decide(one: Kept, expectations: int = 1) -> int | None:
    """With how many seeds an undecided expectation is decided in four of five cases.

    That is if the true value is the mean that came out; a claim fails by the stricter level that
    its number of expectations asks for. None where no interval was found, and for more than a
    thousand.
    """
    if one["interval"] is None:
        return None
    drawn, own = _drawn(one)
    mean = one["interval"]["mean"]
    gap = min(abs(mean - bound) for bound in (one["above"], one["below"]) if bound is not None)
    above = -math.inf if one["above"] is None else one["above"]
    below = math.inf if one["below"] is None else one["below"]
    level = LEVEL if above < mean < below else 1 - (1 - LEVEL) / expectations
    return seeds_needed(gap, stdev(drawn), own_error=own, level=level)


def _p(result: Kept) -> float:
    outcome = result["outcome"]
    found = [_on_bound(one) for one in result["expectations"] if one["outcome"] == outcome]
    return max(found) if outcome == "holds" else min(1.0, min(found) * len(result["expectations"]))


def _on_bound(one: Kept) -> float:
    """p of the bound that decided: the nearer where it holds, the one that was passed if not."""
    error, freedom = standard_error(*_drawn(one))
    mean = one["interval"]["mean"]
    inside = []
    if one["above"] is not None:
        inside.append(mean - one["above"])
    if one["below"] is not None:
        inside.append(one["below"] - mean)
    if error == 0:
        return 0.0
    return float(2 * stats.t.sf(abs(min(inside)) / error, freedom))


def _drawn(one: Kept) -> tuple[list[float], float]:
    """The values by seed that the interval was made of, and what they are off by together."""
    of, minus = one["of"], one["minus"]
    if minus is None:
        return list(of["seeds"].values()), of["error"]
    seeds = sorted({*of["seeds"]} & {*minus["seeds"]})
    drawn = [of["seeds"][seed] - minus["seeds"][seed] for seed in seeds]
    return drawn, math.hypot(of["error"], minus["error"])
