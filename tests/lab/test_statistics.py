"""Statistics: textbook values, and what intervals cover when it is simulated."""

import numpy as np
import pytest
from scipy import stats

from posenc.claims.claim import Cell, Claim, Expectation
from posenc.claims.verdict import judge
from posenc.lab.measured import Values, own_error
from posenc.lab.statistics import (
    bootstrap,
    holm,
    mean,
    permuted,
    seeds_needed,
    share_error,
    shown_gap,
    standard_error,
    wilson,
)


def test_the_mean_has_students_interval() -> None:
    found = mean((1.0, 3.0))
    assert (found.mean, found.half) == pytest.approx((2.0, 12.7062), rel=1e-5)
    values = (0.3, 0.1, 0.4, 0.1, 0.5)
    low, high = stats.ttest_1samp(values, 0).confidence_interval()
    assert (mean(values).low, mean(values).high) == pytest.approx((low, high))
    with pytest.raises(ValueError, match="two seeds or more"):
        mean((1.0,))


def test_seeds_are_no_surer_than_the_examples_that_they_share() -> None:
    assert mean((1.0, 1.0, 1.0)).half == 0
    for seeds in (2, 3, 1000):
        assert mean((1.0,) * seeds, own_error=0.1).half == pytest.approx(1.959964 * 0.1, rel=1e-4)
    # Welch and Satterthwaite by hand: 0.25 + 0.01 squared, (0.26 / 0.25)^2 degrees of freedom.
    found = mean((0.0, 1.0), own_error=0.1)
    assert found.half == pytest.approx(stats.t.ppf(0.975, 1.04**2) * 0.26**0.5)
    error, freedom = standard_error((0.0, 1.0), own_error=0.1)
    assert (error, freedom) == pytest.approx((0.26**0.5, 1.04**2))


@pytest.mark.parametrize(("hits", "tries"), [(100, 100), (0, 100), (95, 100), (40, 100), (3, 4)])
def test_a_share_is_off_as_far_as_wilsons_farther_end(hits: int, tries: int) -> None:
    share, ends = hits / tries, wilson(hits, tries)
    farther = max(share - ends[0], ends[1] - share) / stats.norm.ppf(0.975)
    # Seeds that were tested on the same examples tell no more than one.
    assert share_error((hits,) * 5, tries) == pytest.approx(farther)
    assert share_error((hits // 2, hits - hits // 2), tries // 2, own=True) == pytest.approx(
        farther
    )


def test_an_interval_ends_where_the_number_must_lie() -> None:
    found = mean((1.0, 1.0), own_error=0.1, within=(0.0, 1.0))
    assert (found.low, found.high) == pytest.approx((1 - 0.196, 1.0), abs=1e-4)
    assert found.half == pytest.approx(0.196, abs=1e-4)
    found = mean((0.0, 0.1), within=(0.0, 1.0))
    assert (found.low, found.high) == pytest.approx((0.0, 0.685), abs=1e-3)


class TestWrongVerdicts:
    """How often a bound that is the truth is said to be passed: 2.5% to either side is meant."""

    rounds = 1500

    @pytest.mark.parametrize("share", [0.02, 0.5, 0.9, 0.95, 0.98, 0.99])
    @pytest.mark.parametrize("alike", [0.0, 1.0])
    def test_of_a_share(self, share: float, alike: float) -> None:
        below, above = self.wrong(share, None, alike)
        # The nominal rate and three standard errors.
        assert max(below, above) < 0.037

    @pytest.mark.parametrize(("first", "second"), [(0.99, 0.9), (0.98, 0.98), (0.6, 0.02)])
    @pytest.mark.parametrize("alike", [0.0, 1.0])
    def test_of_a_difference(self, first: float, second: float, alike: float) -> None:
        below, above = self.wrong(first, second, alike)
        # The nominal rate and three standard errors.
        assert max(below, above) < 0.037

    def wrong(self, first: float, second: float | None, alike: float) -> tuple[float, float]:
        """How often the whole interval lies below the truth, and above."""
        rng = np.random.default_rng(0)
        below = above = 0
        a, b = Cell("a"), None if second is None else Cell("b")
        truth = first - (second or 0.0)
        claims = [
            Claim("one", ("", ""), "", ("", ""), True, lambda size: {}, (expectation,))
            for expectation in (Expectation(a, b, below=truth), Expectation(a, b, above=truth))
        ]
        for _ in range(self.rounds):
            measured = {a: self.drawn(rng, first, alike)}
            if b is not None and second is not None:
                measured[b] = self.drawn(rng, second, alike)
            under, over = (judge(claim, measured).outcome for claim in claims)
            below += under == "holds"
            above += over == "holds"
        return below / self.rounds, above / self.rounds

    def drawn(self, rng: np.random.Generator, share: float, alike: float) -> Values:
        """Of 5 seeds on 256 examples, of which so many are the same to all seeds."""
        same = rng.random((1, 256)) < alike
        hits = np.where(same, rng.random((1, 256)) < share, rng.random((5, 256)) < share)
        counts = hits.sum(axis=1).tolist()
        by_seed = {seed: count / 256 for seed, count in enumerate(counts)}
        return Values(by_seed, share_error(counts, 256), (0.0, 1.0))


def test_wilson_of_known_shares() -> None:
    assert wilson(10, 10) == pytest.approx((0.7225, 1.0), abs=1e-4)
    assert wilson(0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert wilson(95, 100) == pytest.approx((0.8883, 0.9785), abs=1e-4)


def test_signs_are_tried_all() -> None:
    assert permuted((1, 2, 3, 4, 5), (0, 0, 0, 0, 0)) == pytest.approx(2 / 32)
    assert permuted((1, -1, 1, -1), (0, 0, 0, 0)) == 1
    assert permuted((3, 1), (1, 3)) == 1


def test_holm_of_a_known_case() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_the_gap_that_seeds_would_show() -> None:
    # The tables of Cohen 1988 for paired differences: d = 0.5 takes 34 pairs, d = 0.8 takes 15.
    assert seeds_needed(0.5, 1.0) == 34
    assert seeds_needed(0.8, 1.0) == 15
    assert shown_gap(1.0, 34) <= 0.5 < shown_gap(1.0, 33)
    assert seeds_needed(-0.8, 1.0) == 15
    assert seeds_needed(1e-6, 1.0) is None
    assert seeds_needed(0.0, 1.0) is None
    # What all seeds are off by together is decided by none of them.
    assert seeds_needed(0.8, 1.0, own_error=0.1) > 15
    assert seeds_needed(0.8, 1.0, own_error=0.3) is None
    assert shown_gap(0.0, 5, own_error=0.1) == pytest.approx((1.959964 + 0.841621) * 0.1, rel=1e-4)


@pytest.mark.parametrize("seeds", [2, 5])
def test_a_gap_is_shown_as_often_as_is_said(seeds: int) -> None:
    rng, gap = np.random.default_rng(0), shown_gap(1.0, seeds)
    drawn = [mean(rng.normal(gap, 1.0, seeds).tolist()) for _ in range(2000)]
    # 80% +- three standard errors.
    assert np.mean([found.low > 0 for found in drawn]) == pytest.approx(0.8, abs=0.027)


class TestCoverage:
    """How often an interval holds what the values were drawn from."""

    rounds = 2000

    def covered(self, draw, truth: float, **settings) -> float:
        rng, inside = np.random.default_rng(0), 0
        for _ in range(self.rounds):
            found = mean(draw(rng), **settings)
            inside += found.low <= truth <= found.high
        return inside / self.rounds

    @pytest.mark.parametrize("seeds", [2, 5, 10])
    def test_of_losses(self, seeds: int) -> None:
        assert 0.935 < self.covered(lambda rng: rng.normal(0, 1, seeds), 0.0) < 0.965

    @pytest.mark.parametrize("seeds", [5, 10])
    def test_of_shares_that_differ_a_little(self, seeds: int) -> None:
        def draw(rng):
            return rng.binomial(256, np.clip(rng.normal(0.9, 0.03, seeds), 0, 1)) / 256

        assert 0.93 < self.covered(draw, 0.9) < 0.97

    @pytest.mark.parametrize("alike", [0.0, 0.5, 1.0])
    @pytest.mark.parametrize("seeds", [5, 10])
    def test_of_shares_of_the_same_examples(self, seeds: int, alike: float) -> None:
        """All seeds learned the same function, as far as they are alike."""

        def covers(rng) -> bool:
            common, own = rng.random((1, 256)) < 0.8, rng.random((seeds, 256)) < 0.8
            hits = np.where(rng.random((1, 256)) < alike, common, own).sum(axis=1)
            found = mean((hits / 256).tolist(), own_error=share_error(hits.tolist(), 256))
            return found.low <= 0.8 <= found.high

        rng = np.random.default_rng(0)
        covered = np.mean([covers(rng) for _ in range(self.rounds)])
        # It counts what seeds do otherwise twice.
        assert 0.93 < covered <= (0.97 if alike == 1 else 1.0)

    @pytest.mark.parametrize(("together", "most"), [(1.0, 0.97), (0.5, 1.0)])
    def test_of_shares_of_places(self, together: float, most: float) -> None:
        """Of 256 examples with 16 places each, which are right together as often as is said."""

        def covers(rng) -> bool:
            whole, each = rng.random((256, 1)) < 0.8, rng.random((256, 16)) < 0.8
            share = float(np.where(rng.random((256, 1)) < together, whole, each).mean())
            # All seeds learned the same function.
            row = {"kind": "accuracy", "length": 8, "examples": 256, "exact": 0, "token": share}
            error = own_error([row] * 5, "token", "copy")
            found = mean([share] * 5, own_error=error)
            return found.low <= 0.8 <= found.high

        rng = np.random.default_rng(0)
        assert 0.93 < np.mean([covers(rng) for _ in range(self.rounds)]) <= most

    def test_of_outcomes_with_two_modes(self) -> None:
        """Half of the seeds solve it: ten tell so. One of ten does: seven times of ten."""

        def half(rng):
            return rng.binomial(1, 0.5, 10).astype(float)

        def tenth(rng):
            return rng.binomial(1, 0.1, 10).astype(float)

        assert 0.93 < self.covered(half, 0.5, own_error=0.03) < 0.995
        assert 0.55 < self.covered(tenth, 0.1, own_error=0.03) < 0.75

    def test_the_bootstrap_is_too_narrow_for_five_seeds(self) -> None:
        rng, inside = np.random.default_rng(0), 0
        for _ in range(60):
            low, high = bootstrap(rng.normal(0, 1, 5))
            inside += low <= 0 <= high
        assert inside / 60 < 0.92
        assert bootstrap((1.0, 1.0)) == (1.0, 1.0)
        assert bootstrap((0.3 - 0.1, *[0.2] * 4)) == pytest.approx((0.2, 0.2))
