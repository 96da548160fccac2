"""Timing in turns: noisy machines drift, so only ratios within a round mean anything."""

import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Ratio:
    """Median and quartiles of time(case) / time(base), over rounds."""

    low: float
    median: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:5.2f} ({self.low:.2f} to {self.high:.2f})"


def in_turns(
    cases: Mapping[str, Callable[[], object]], *, rounds: int, repeats: int, seed: int = 0
) -> dict[str, list[float]]:
    """Seconds per call of each case in each round; every round runs all cases in a random order."""
    order = random.Random(seed)
    for call in cases.values():
        call()
        call()
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds):
        names = list(cases)
        order.shuffle(names)
        for name in names:
            taken = []
            for _ in range(repeats):
                start = time.perf_counter()
                cases[name]()
                taken.append(time.perf_counter() - start)
            seconds[name].append(statistics.median(taken))
    return seconds


def ratio(case: list[float], base: list[float]) -> Ratio:
    """case / base, round by round."""
    each = sorted(a / b for a, b in zip(case, base, strict=True))
    low, median, high = statistics.quantiles(each, n=4) if len(each) > 1 else [each[0]] * 3
    return Ratio(low, median, high)
