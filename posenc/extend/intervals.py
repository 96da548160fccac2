"""How far a mean over few spans, or a share of few tries, can be trusted."""

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist, fmean, variance

from scipy.special import stdtrit

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
        t = float(stdtrit(n + p, 1 - (1 - level) / (2 * len(known))))
        found[name] = Interval(fmean(of), t * math.sqrt(own / len(of)))
    return found


def wilson(hits: int, tries: int, level: float = LEVEL) -> tuple[float, float]:
    """The interval of a share, hits of tries.

        (p + z^2/2n +- z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2/n),   p = hits / n

    It stays within 0 and 1, and says something where all tries or none succeed.

    Source: Wilson 1927, "Probable inference, the law of succession, and statistical inference".
    """
    p, z = hits / tries, NormalDist().inv_cdf((1 + level) / 2)
    middle = p + z * z / (2 * tries)
    half = z * math.sqrt(p * (1 - p) / tries + z * z / (4 * tries * tries))
    whole = 1 + z * z / tries
    return max(0.0, (middle - half) / whole), min(1.0, (middle + half) / whole)
