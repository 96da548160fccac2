"""cos and sin of rotary angles against fifty decimal places."""

import mpmath
from torch import Tensor

from posenc import Rotary
from posenc.encodings.scaling import Scaling


def worst_wave(waves: Tensor, position: int, rope: Rotary, rule: Scaling) -> float:
    """The largest error of (cos, sin) pairs (2, r) at a position, by the reference in 50 digits."""
    worst = 0.0
    with mpmath.workdps(50):
        base = mpmath.mpf(rope.base)
        for i, (cos, sin) in enumerate(waves.T.tolist()):
            angle = position * rule.reference(i, base, rope.rotated_dim, position + 1)
            exact = rule.gain * mpmath.cos(angle), rule.gain * mpmath.sin(angle)
            worst = max(worst, abs(exact[0] - cos), abs(exact[1] - sin))
    return float(worst)
