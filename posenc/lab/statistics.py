"""What a few seeds allow to say: intervals, tests, and how many seeds a difference would take.

Two runs of one seed share their weights and their data, so that differences are taken seed by seed.
Everything is scipy's but `holm`; what the intervals cover is simulated in
`tests/lab/test_statistics.py`.
"""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

import numpy as np
from scipy import stats

from posenc.lab.intervals import LEVEL, Interval, noncentrality


def mean(values: Sequence[float], level: float = LEVEL, own_error: float = 0.0) -> Interval:
    """The mean over seeds with Student's t.

        m +- t(level, S - 1) * sqrt(max(s^2, own_error^2) / S)

    `own_error` is what each value could be off by in itself, as a share of few examples is: where
    all seeds agree by luck, the interval has that width and not none. Seeds that all do alike do
    not exclude one that does otherwise: what one seed of ten does, five do not show.
    Raises ValueError for fewer than two values.
    """
    if len(values) < 2:
        raise ValueError(f"mean({list(values)}): an interval needs two seeds or more")
    error = max(stdev(values), own_error) / math.sqrt(len(values))
    half = float(stats.t.ppf((1 + level) / 2, len(values) - 1)) * error
    return Interval(fmean(values), half)


def share_error(hits: Sequence[int], tries: int) -> float:
    """By how much a share of `tries` examples is off, pooled over seeds.

        sqrt(p (1 - p) / tries),   p = (sum of hits + 2) / (S * tries + 4)

    Source: Agresti and Coull 1998, whose four added tries keep it above 0 where all agree.
    """
    p = (sum(hits) + 2) / (len(hits) * tries + 4)
    return math.sqrt(p * (1 - p) / tries)


def wilson(hits: int, tries: int, level: float = LEVEL) -> tuple[float, float]:
    """The interval of a share, hits of tries.

    It stays within 0 and 1, and says something where all tries or none succeed.
    Source: Wilson 1927, "Probable inference, the law of succession, and statistical inference".
    """
    found = stats.binomtest(hits, tries).proportion_ci(level, method="wilson")
    return max(0.0, float(found.low)), min(1.0, float(found.high))


def bootstrap(values: Sequence[float], level: float = LEVEL) -> tuple[float, float]:
    """The interval of the mean by resampling seeds: bias-corrected and accelerated.

    Source: Efron 1987, "Better bootstrap confidence intervals". For a handful of seeds it is too
    narrow, and stands beside Student's t, not in its place.
    """
    if len({*values}) == 1:
        return values[0], values[0]
    found = stats.bootstrap(
        (np.asarray(values, float),), np.mean, confidence_level=level, rng=np.random.default_rng(0)
    ).confidence_interval
    return float(found.low), float(found.high)


def permuted(first: Sequence[float], second: Sequence[float]) -> float:
    """p of the mean difference, paired by seed, where either could have been the other.

    Exact for up to 12 seeds: all signs of the differences are tried. Its least value is
    2 / 2^S, so that five seeds cannot go below 0.0625.
    """
    differences = np.asarray(first, float) - np.asarray(second, float)
    found = stats.permutation_test(
        (differences,),
        np.mean,
        permutation_type="samples",
        n_resamples=4096,
        rng=np.random.default_rng(0),
    )
    return float(found.pvalue)


def holm(p: Sequence[float]) -> list[float]:
    """Values of p as they are to be read when so many were looked at together.

        p'_(i) = max over j <= i of min(1, (m - j + 1) p_(j))

    Source: Holm 1979, "A simple sequentially rejective multiple test procedure".
    """
    order = sorted(range(len(p)), key=p.__getitem__)
    adjusted, least = [0.0] * len(p), 0.0
    for place, index in enumerate(order):
        least = max(least, min(1.0, (len(p) - place) * p[index]))
        adjusted[index] = least
    return adjusted


def shown_gap(spread: float, seeds: int, level: float = LEVEL, power: float = 0.8) -> float:
    """The least difference that so many seeds would show, in `power` of all cases.

    `spread` is the standard deviation of the differences over seeds.
    """
    return noncentrality(seeds - 1, level, power) * spread / math.sqrt(seeds)


def seeds_needed(gap: float, spread: float, most: int = 1000) -> int | None:
    """How many seeds would show a difference of this size; None for more than `most`."""
    if gap == 0:
        return None
    low, high = 2, most
    if shown_gap(spread, high) > abs(gap):
        return None
    while low < high:
        middle = (low + high) // 2
        if shown_gap(spread, middle) <= abs(gap):
            high = middle
        else:
            low = middle + 1
    return low
