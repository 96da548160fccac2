"""How far a mean over few spans can be trusted."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, variance

from scipy import stats

from posenc.lab.intervals import LEVEL, Interval

# As much as two more spans would know.
PRIOR_FREEDOM = 2


def differences(
    values: Mapping[str, Sequence[float]], level: float = LEVEL
) -> dict[str, Interval | None]:
    """Intervals that hold together of each mean, of one value per span; None for fewer than two.

        m +- t(level / how many, n - 1 + p) * sqrt(v / n)
        v = max(own, (p * pooled + (n - 1) * own) / (n - 1 + p))

    Spans that happen to agree would make a variance of so few tiny: it is averaged with that of
    all names, and never counts as less than its own (as in posenc.lab.intervals). p is 2, or 0
    where one name alone has a variance. Values that are all zero are no luck: what is compared is
    the same there, and the interval is zero.
    """
    same = {name for name, of in values.items() if of and not any(of)}
    known = {name: of for name, of in values.items() if len(of) > 1 and name not in same}
    freedom = sum(len(of) - 1 for of in known.values())
    pooled = sum((len(of) - 1) * variance(of) for of in known.values()) / max(freedom, 1)
    p = PRIOR_FREEDOM if len(known) > 1 else 0
    found: dict[str, Interval | None] = dict.fromkeys(values)
    found |= {name: Interval(0.0, 0.0) for name in same if len(values[name]) > 1}
    for name, of in known.items():
        n = len(of) - 1
        own = max(variance(of), (p * pooled + n * variance(of)) / (n + p))
        t = float(stats.t.ppf(1 - (1 - level) / (2 * len(known)), n + p))
        found[name] = Interval(fmean(of), t * math.sqrt(own / len(of)))
    return found
