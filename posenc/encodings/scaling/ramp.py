"""A share of each frequency, by how often it turns in the original length."""

import math

from posenc.encodings.scaling.base import Scaling, Theta
from posenc.errors import SettingError


def by_turns(theta: Theta, original_length: int, low: float, high: float) -> Theta:
    """A ramp from 0 to 1 in how often each pair turns within the original length."""
    turns = original_length * theta / (2 * math.pi)
    # A ramp of no width is a step.
    return ((turns - low) / (high - low or 1e-12)).clamp(0.0, 1.0)


def check_ramp(scaling: Scaling, slow: str, fast: str) -> None:
    if not 0 < getattr(scaling, slow) <= getattr(scaling, fast):
        raise SettingError(f"{scaling!r}: 0 < {slow} <= {fast} is needed")
