"""A mean over independent values, and the 95% interval of Student's t."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from scipy.special import stdtrit

from posenc.lab.intervals import LEVEL, Interval


def mean_of(values: Sequence[float]) -> Interval:
    """m +- t(level, n - 1) * s / sqrt(n)."""
    n = len(values)
    t = float(stdtrit(n - 1, (1 + LEVEL) / 2))
    return Interval(fmean(values), t * stdev(values) / math.sqrt(n))


def shown(interval: Interval, sign: str = "") -> str:
    if not interval.half:
        return f"{interval.mean:{sign}.3f}"
    return f"{interval.mean:{sign}.3f} ({interval.low:.3f} to {interval.high:.3f})"
