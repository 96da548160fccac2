"""Candidates of LongRoPE2's search: divisors of the frequencies, one per pair of dimensions.

Source: Shang et al. 2025, arXiv:2502.20082, section 3.2, algorithms 1 and 2; the grid and the share
of factors that mutate are those of the first author's code (J-shang/LongRoPE).
"""

import math
from dataclasses import dataclass
from random import Random

# How often a pair turns in training from where on it is surely trained enough.
TRAINED_TURNS = 10
# Factors are drawn up to this many times the extension.
WIDEST = 2.0
DIGITS = 2
SHARE = 0.3


@dataclass(frozen=True)
class Space:
    """What candidates may be, for pairs that turn by base**(-i / pairs) per token."""

    base: float
    pairs: int
    trained: int
    target: int

    @property
    def least(self) -> float:
        """The extension, target over trained length: no factor of a critical pair is smaller."""
        return self.target / self.trained

    @property
    def most(self) -> float:
        return WIDEST * self.least

    @property
    def critical(self) -> range:
        """The pairs from which on factors may be free: the first that turns less than 10 times
        within the trained length, up to the first that turns less than once.
        """
        first, last = (self._turning(turns) for turns in (TRAINED_TURNS, 1))
        return range(first, last + 1)

    def _turning(self, turns: float) -> int:
        """ceil(pairs * log_base(trained / (2 pi turns))), of the pairs but the first."""
        known = self.trained / (2 * math.pi * turns)
        pair = math.ceil(self.pairs * math.log(known) / math.log(self.base))
        return min(max(pair, 1), self.pairs - 1)


@dataclass(frozen=True)
class Candidate:
    """A critical pair, and the factors from it on, which never fall."""

    critical: int
    upper: tuple[float, ...]

    @property
    def factors(self) -> tuple[float, ...]:
        """One per pair: below the critical one those of another base, NTK's, that meets it there.

        upper[0] ** (i / critical)   for i < critical
        """
        lower = (self.upper[0] ** (i / self.critical) for i in range(self.critical))
        return (*lower, *self.upper)


def start(space: Space, critical: int, drawn: Random) -> Candidate:
    """One factor for all pairs from the critical one on (algorithm 1)."""
    factor = _between(space.least, space.most, drawn)
    return Candidate(critical, (factor,) * (space.pairs - critical))


def mutated(candidate: Candidate, space: Space, drawn: Random) -> Candidate:
    """Some factors drawn anew between their neighbours, one after another (algorithm 2)."""
    upper = list(candidate.upper)
    for i in range(len(upper)):
        if drawn.random() < SHARE:
            low = upper[i - 1] if i else space.least
            high = upper[i + 1] if i + 1 < len(upper) else space.most
            upper[i] = _between(low, high, drawn)
    return Candidate(candidate.critical, tuple(upper))


def _between(low: float, high: float, drawn: Random) -> float:
    return min(max(round(drawn.uniform(low, high), DIGITS), low), high)
