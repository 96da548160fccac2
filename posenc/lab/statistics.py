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

from posenc.lab.intervals import LEVEL, UNBOUNDED, Interval, noncentrality


def mean(
    values: Sequence[float],
    level: float = LEVEL,
    own_error: float = 0.0,
    within: tuple[float, float] = UNBOUNDED,
) -> Interval:
    """The mean over seeds with Student's t, where it can lie.

        m +- t(level, df) * e,   e and df as `standard_error` has them

    Seeds that all do alike do not exclude one that does otherwise: what one seed of ten does, five
    do not show. Raises ValueError for fewer than two values.
    """
    error, freedom = standard_error(values, own_error)
    return Interval(fmean(values), float(stats.t.ppf((1 + level) / 2, freedom)) * error, within)


def standard_error(values: Sequence[float], own_error: float = 0.0) -> tuple[float, float]:
    """The error of a mean over S seeds, and its degrees of freedom.

        e^2 = s^2 / S + own_error^2,   df = (S - 1) (e^2 / (s^2 / S))^2

    `own_error` is what all values are off by together, as shares are where all seeds are tested on
    the same few examples: no number of seeds makes it smaller. Where seeds do differ by their
    examples, s has a part of it already, so that the sum is never too small.

    Source: Welch 1947 and Satterthwaite 1946, own_error being known. Raises ValueError for fewer
    than two values.
    """
    if len(values) < 2:
        raise ValueError(f"mean({list(values)}): an interval needs two seeds or more")
    return _combined(stdev(values) ** 2 / len(values), own_error, len(values))


def _combined(of_seeds: float, own_error: float, seeds: int) -> tuple[float, float]:
    squared = of_seeds + own_error**2
    # So many degrees of freedom are as good as all, where seeds agree.
    known = of_seeds <= 1e-6 * squared and own_error > 0
    freedom = 1e6 if known else (seeds - 1) * (squared / of_seeds if squared else 1.0) ** 2
    return math.sqrt(squared), min(1e6, freedom)


def share_error(hits: Sequence[float], examples: int, *, own: bool = False) -> float:
    """By how much a share is off that S seeds were tested for on so many examples.

        (|c - p| + sqrt(p (1 - p) / tries + k / (4 tries)) z / (1 + k)) / z
        p = sum of hits / (S * examples),   k = z^2 / tries,   c = (p + k / 2) / (1 + k)

    That is how far the farther end of Wilson's interval around c lies from the share, in units of
    z, of the level 95%: near 0 and 1, where hits are skewed, the end towards the middle. The tries
    are the examples, for seeds may be right on the same ones, and S times as many where each seed
    was tested on its `own`.

    Source: Wilson 1927.
    """
    z = float(stats.norm.ppf((1 + LEVEL) / 2))
    share = sum(hits) / (len(hits) * examples)
    tries = examples * len(hits) if own else examples
    k = z**2 / tries
    spread = math.sqrt(share * (1 - share) / tries + k / (4 * tries))
    return (k * abs(share - 0.5) / z + spread) / (1 + k)


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
    if math.isclose(min(values), max(values), abs_tol=1e-12):
        return min(values), max(values)
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


def shown_gap(
    spread: float,
    seeds: int,
    level: float = LEVEL,
    power: float = 0.8,
    own_error: float = 0.0,
) -> float:
    """The least difference that so many seeds would show, in `power` of all cases.

    `spread` is the standard deviation of the differences over seeds, `own_error` as in `mean`.
    """
    error, freedom = _combined(spread**2 / seeds, own_error, seeds)
    return noncentrality(freedom, level, power) * error


def seeds_needed(
    gap: float,
    spread: float,
    most: int = 1000,
    own_error: float = 0.0,
    level: float = LEVEL,
) -> int | None:
    """How many seeds would show a difference of this size; None for more than `most`."""
    if gap == 0:
        return None

    def shown(seeds: int) -> bool:
        return shown_gap(spread, seeds, level, own_error=own_error) <= abs(gap)

    low, high = 2, most
    if not shown(high):
        return None
    while low < high:
        middle = (low + high) // 2
        if shown(middle):
            high = middle
        else:
            low = middle + 1
    return low
