"""Timing in turns: noisy machines drift, so only ratios within a round mean anything."""

import gc
import math
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

# A sample shorter than this is mostly the clock's own.
SAMPLE_SECONDS = 2e-3
# Calls longer than this are their own warm-up, and one of them is sample enough.
LONG_SECONDS = 0.1
MOST_CALLS = 2000


@dataclass(frozen=True)
class Interval:
    """A median, and the order statistics that enclose it 19 times of 20 (all, if under six)."""

    low: float
    median: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f} to {self.high:.2f})"


def interval(values: Sequence[float], level: float = 0.95) -> Interval:
    """The median of values, and its distribution-free interval (sign test)."""
    ordered = sorted(values)
    count, tail, outside = len(ordered), 0.0, 0
    for rank in range(count // 2):
        tail += math.comb(count, rank) / 2**count
        if tail > (1 - level) / 2:
            break
        outside = rank
    return Interval(ordered[outside], statistics.median(ordered), ordered[-1 - outside])


def ratio(case: Sequence[float], base: Sequence[float]) -> Interval:
    """case / base, round by round."""
    return interval([a / b for a, b in zip(case, base, strict=True)])


def spread(values: Sequence[float]) -> float:
    """Distance of the quartiles, over the median: what a noisy machine makes large."""
    if len(values) < 2:
        return 0.0
    low, median, high = statistics.quantiles(values, n=4)
    return (high - low) / median


def in_turns(
    calls: Mapping[str, Callable[[], object]],
    *,
    seconds: float,
    rounds: tuple[int, int] = (7, 40),
    warm: bool = True,
    seed: int = 0,
) -> dict[str, list[float]]:
    """Seconds per call of each, in each round; every round runs all in a random order.

    As many rounds as take about `seconds`, within `rounds`. A call that returns a float has
    measured itself. Without `warm`, the first call of each counts.
    """
    order = random.Random(seed)
    if warm:
        plans = {name: _planned(call) for name, call in calls.items()}
        whole = sum(plan.seconds for plan in plans.values())
        count = min(max(round(seconds / whole), rounds[0]), rounds[1])
    else:
        plans, count = dict.fromkeys(calls, _Plan(0, 1, 1, 0.0)), rounds[0]
    taken: dict[str, list[float]] = {name: [] for name in calls}
    collecting = gc.isenabled()
    gc.disable()
    # What is there already is not looked at again, so that collecting between rounds is cheap.
    gc.freeze()
    try:
        for _ in range(count):
            gc.collect()
            for name in order.sample(list(calls), len(calls)):
                call, plan = calls[name], plans[name]
                for _ in range(plan.before):
                    call()
                samples = [_sample(call, plan.calls) for _ in range(plan.samples)]
                taken[name].append(statistics.median(samples))
    finally:
        gc.unfreeze()
        if collecting:
            gc.enable()
    return taken


@dataclass(frozen=True)
class _Plan:
    before: int
    samples: int
    calls: int
    seconds: float


def _planned(call: Callable[[], object]) -> _Plan:
    seconds = _sample(call, 1)
    # A short call is slower the first time.
    return _plan(seconds if seconds > LONG_SECONDS else _sample(call, 1))


def _plan(seconds: float) -> _Plan:
    if seconds > LONG_SECONDS:
        return _Plan(0, 1, 1, seconds)
    calls = min(max(math.ceil(SAMPLE_SECONDS / max(seconds, 1e-9)), 1), MOST_CALLS)
    # The call before puts this contestant's own data into the caches.
    return _Plan(1, 3, calls, seconds * (1 + 3 * calls))


def _sample(call: Callable[[], object], calls: int) -> float:
    value: object = None
    start = time.perf_counter()
    for _ in range(calls):
        value = call()
    elapsed = (time.perf_counter() - start) / calls
    return value if isinstance(value, float) else elapsed
