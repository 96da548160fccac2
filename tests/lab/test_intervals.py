"""Intervals from few seeds."""

import math
import random

import pytest
from scipy.stats import t

from posenc.lab.intervals import Interval, Noise, Sample, fit_noise, interval

ALONE = Noise(floor=0.0, share=0.0, groups=1)
LENGTHS = (64, 128, 512)


def test_interval_of_two_seeds_alone_is_the_textbook_one() -> None:
    found = interval(Sample((1.0, 3.0)), ALONE)
    # s2 = 2, so the standard error is sqrt(2 / 2) = 1.
    assert found.mean == 2.0
    assert found.half == pytest.approx(12.7062, rel=1e-5)
    assert (found.low, found.high) == pytest.approx((2 - 12.7062, 2 + 12.7062), rel=1e-5)


def test_interval_moderates_a_lucky_variance_with_the_noise_of_all() -> None:
    noise = Noise(floor=0.3, share=0.2, groups=6)
    sample = Sample((1.0, 1.0), models=2, risen=4.0)
    # prior = 2 * 0.09 + 0.04 * 4 = 0.34; v = (2 * 0.34 + 1 * 0) / 3; df = 3
    expected = 3.18245 * math.sqrt(2 * 0.34 / 3 / 2)
    assert interval(sample, noise).half == pytest.approx(expected, rel=1e-5)


def test_an_erratic_encoding_keeps_its_own_variance() -> None:
    found = interval(Sample((1.0, 3.0)), Noise(floor=0.01, share=0.0, groups=6))
    assert found.half == pytest.approx(3.18245, rel=1e-5)


def test_the_prior_weighs_no_more_than_the_other_encodings_can_tell() -> None:
    two = interval(Sample((1.0, 1.0)), Noise(floor=0.3, share=0.0, groups=2))
    # p = 1: v = 0.09 / 2 and df = 2
    assert two.half == pytest.approx(4.30265 * math.sqrt(0.09 / 2 / 2), rel=1e-5)


def test_interval_adds_the_error_of_the_test_text() -> None:
    # Span means over seeds are 1, 2, 3: w = 1, so w / J = 1 / 3; seeds give v / S = 1 with df 1.
    sample = Sample((1.0, 3.0), spans=((0.0, 1.0, 2.0), (2.0, 3.0, 4.0)))
    total = 1 + 1 / 3
    freedom = total**2 / (1 / 1 + (1 / 9) / 2)
    expected = t.ppf(0.975, freedom) * math.sqrt(total)
    assert interval(sample, ALONE).half == pytest.approx(expected)


def test_interval_of_equal_values_has_no_width() -> None:
    assert interval(Sample((0.5, 0.5)), ALONE) == Interval(0.5, 0.0)


def test_one_seed_has_no_interval() -> None:
    with pytest.raises(ValueError, match="one seed"):
        interval(Sample((1.0,)), ALONE)


def test_noise_is_pooled_over_encodings() -> None:
    noise = fit_noise(
        [Sample((1.0, 3.0)), Sample((5.0, 5.0)), Sample((9.0,))],
        [Sample((0.9, 1.1)), Sample((2.0, 2.0)), Sample((7.0,))],
    )
    # floor2 = (2 + 0) / 2; share2 = (0.02 + 0) / (1 + 4); the single seeds tell nothing
    assert noise.floor == pytest.approx(1.0)
    assert noise.share == pytest.approx(math.sqrt(0.004))
    assert noise.groups == 2


def test_intervals_from_two_seeds_cover_the_truth_as_the_docstring_says() -> None:
    rng = random.Random(0)
    rises, spreads = (0.24, 2.0, 1.85, 1.85, 0.01, 0.83), (0.01, 0.13, 0.2, 0.15, 0.002, 0.05)
    rounds, inside = 1000, [0] * len(rises)
    for _ in range(rounds):
        at_train = [Sample((rng.gauss(2, 0.02), rng.gauss(2, 0.02))) for _ in rises]
        drawn = [
            (rng.gauss(rise, spread), rng.gauss(rise, spread))
            for rise, spread in zip(rises, spreads, strict=True)
        ]
        changes = [Sample(pair, models=0, risen=(sum(pair) / 2) ** 2) for pair in drawn]
        noise = fit_noise(at_train, changes)
        for i, (rise, change) in enumerate(zip(rises, changes, strict=True)):
            found = interval(change, noise)
            inside[i] += found.low <= rise <= found.high
    shares = [count / rounds for count in inside]
    assert 0.94 < sum(shares) / len(shares) < 0.97
    # A fifth of its rise, where a tenth or less is typical.
    assert min(shares) == shares[4]
    assert 0.84 < shares[4] < 0.92
