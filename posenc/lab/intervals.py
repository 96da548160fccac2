"""How far a mean over few seeds can be trusted, and which differences are more than luck.

A quantity (a loss, a change with length, a difference between two encodings) has one value per
seed. Two things could have come out differently: the seed, and the text that was tested on.

    mean       m   = average over the S seeds
    error      e2  = v / S  +  w / J
    interval   m +- t(level, df) * sqrt(e2)

v is the variance over seeds; w is the variance, over the J spans of test text, of the value
averaged over seeds. It is left out where spans were not recorded, and for a loss by itself, because
another text would move all encodings together. The sum is never too small: in the crossed design of
seeds and spans it counts their interaction twice (Owen, 2007, "The pigeonhole bootstrap").

Two seeds that happen to agree would make v tiny, and t with one degree of freedom is 12.7, so v is
moderated by what all encodings together say (as in Smyth, 2004, "Linear models and empirical Bayes
methods"). With n = S - 1,

    v     = max(own, (p * prior + n * own) / (p + n))      p + n degrees of freedom
    p     = min(2, n * (encodings - 1))
    prior = models * floor^2 + share^2 * risen

floor is the spread over seeds of the loss at the train length, pooled over encodings; it counts
once for a loss, twice for a difference between two encodings (models = 1, 2), and not for a change
of one encoding with length (models = 0), since there it cancels. Past the train length the spread
grows with the damage: share is the spread of the rise in loss divided by the rise, pooled over
encodings and lengths, and risen is the mean rise squared, summed over the encodings involved. The
maximum lets an encoding that is more erratic than the others stay so. Welch and Satterthwaite's
formula combines the degrees of freedom of v with the J - 1 of w.

Simulated with the spreads of real runs, 95% intervals from two seeds cover 94% to 97% on average
over encodings, and 84% to 92% for one whose rise spreads several times as much as is typical
(`tests/lab/test_intervals.py`).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from scipy import optimize, stats

LEVEL = 0.95
PRIOR_FREEDOM = 2
# Between what a number lies that may be any.
UNBOUNDED = (-math.inf, math.inf)


@dataclass(frozen=True)
class Sample:
    """One quantity, measured once per seed.

    `spans[s][j]` is its value on span j of the test text, for the s-th seed, where recorded;
    `models` and `risen` are those of the module's formula.
    """

    values: tuple[float, ...]
    spans: tuple[tuple[float, ...], ...] = ()
    models: int = 1
    risen: float = 0.0

    @property
    def mean(self) -> float:
        return fmean(self.values)

    @property
    def freedom(self) -> int:
        return len(self.values) - 1

    @property
    def variance(self) -> float:
        """Over seeds; 0 for one seed."""
        return variance(self.values) if self.freedom else 0.0

    @property
    def text_error(self) -> float:
        """Squared standard error that comes from the choice of test text; 0 where unknown."""
        means = [fmean(column) for column in zip(*self.spans, strict=True)]
        return variance(means) / len(means) if len(means) > 1 else 0.0


@dataclass(frozen=True)
class Interval:
    """A mean, and the half width of the range that is said to hold the true value.

    The range ends where the true value must: a share lies `within` 0 and 1.
    """

    mean: float
    half: float
    within: tuple[float, float] = UNBOUNDED

    @property
    def low(self) -> float:
        return max(self.within[0], self.mean - self.half)

    @property
    def high(self) -> float:
        return min(self.within[1], self.mean + self.half)


@dataclass(frozen=True)
class Noise:
    """How much seeds differ, over all encodings: `floor` in nats per byte, `share` of a rise.

    `groups` is the number of encodings with at least two seeds.
    """

    floor: float
    share: float
    groups: int

    def prior(self, sample: Sample) -> float:
        """The variance over seeds to expect of a quantity, before looking at its own."""
        return sample.models * self.floor**2 + self.share**2 * sample.risen


def fit_noise(at_train: Iterable[Sample], rises: Iterable[Sample]) -> Noise:
    """The noise in losses at the train length and in rises past it; one sample per encoding (and
    length), those with one seed are left out.

        floor^2 = sum of n * variance / sum of n             over the losses at the train length
        share^2 = sum of n * variance / sum of n * mean^2    over the rises
    """
    at_train = [sample for sample in at_train if sample.freedom]
    rises = [sample for sample in rises if sample.freedom]
    freedom = sum(sample.freedom for sample in at_train)
    squares = sum(sample.freedom * sample.mean**2 for sample in rises)
    return Noise(
        floor=math.sqrt(_summed(at_train) / freedom) if freedom else 0.0,
        share=math.sqrt(_summed(rises) / squares) if squares else 0.0,
        groups=len(at_train),
    )


def interval(sample: Sample, noise: Noise, level: float = LEVEL) -> Interval:
    """The interval of a sample of at least two seeds; the formula is in the module's docstring."""
    error, freedom = _error(sample, noise)
    return Interval(sample.mean, float(stats.t.ppf((1 + level) / 2, freedom)) * error)


def shown(sample: Sample, noise: Noise, level: float = LEVEL) -> float:
    """The least true value that `interval` would tell from 0 in four of five cases."""
    error, freedom = _error(sample, noise)
    return noncentrality(freedom, level) * error


def noncentrality(freedom: float, level: float = LEVEL, power: float = 0.8) -> float:
    """How many standard errors from 0 a value must lie to be told from it so often.

    The shift at which a noncentral t exceeds Student's bound with probability `power`.
    """
    bound = float(stats.t.ppf((1 + level) / 2, freedom))

    def missing(shift: float) -> float:
        return float(stats.nct.sf(bound, freedom, shift)) - power

    return float(optimize.brentq(missing, 0.0, 10 * bound))


def _error(sample: Sample, noise: Noise) -> tuple[float, float]:
    """Standard error and degrees of freedom."""
    own, freedom = sample.variance, sample.freedom
    if not freedom:
        raise ValueError(f"interval({sample!r}): one seed has no interval")
    weight = min(PRIOR_FREEDOM, freedom * (noise.groups - 1))
    if weight > 0:
        own = max(own, (weight * noise.prior(sample) + freedom * own) / (weight + freedom))
        freedom += weight
    seed_error, text_error = own / len(sample.values), sample.text_error
    total = seed_error + text_error
    if total == 0:
        return 0.0, freedom
    parts = seed_error**2 / freedom
    if text_error:
        parts += text_error**2 / (len(sample.spans[0]) - 1)
    return math.sqrt(total), total**2 / parts


def _summed(samples: Sequence[Sample]) -> float:
    return sum(sample.freedom * sample.variance for sample in samples)
