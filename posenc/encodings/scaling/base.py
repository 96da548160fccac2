"""What every scaling is, and the ramp that some of them share."""

import math
from typing import ClassVar

from jaxtyping import Float64, Int
from torch import Tensor

from posenc.errors import SettingError, finite, is_finite, is_whole
from posenc.frequencies import FREQUENCIES, GAINS, default, no_gain

Theta = Float64[Tensor, "r"]
Scaled = Float64[Tensor, "*#bt r"]
# How far the own sequence of each token reaches; None: no farther than the original length.
Length = Int[Tensor, "*#bt 1"] | None

_POSENCS = "posenc.encodings.scaling."


class Scaling:
    """What `Rotary(scaling=...)` takes: frozen data that maps frequencies; here, to themselves.

    length_dependent  the frequencies change with the length of the input
    fewest_pairs      how many pairs must turn for the formula to have a meaning
    gain              multiplies the rotated dimensions of q and of k
    """

    length_dependent: ClassVar[bool] = False
    fewest_pairs: ClassVar[int] = 1

    def __post_init__(self) -> None:
        factor, length = getattr(self, "factor", 1.0), getattr(self, "original_length", 1)
        if not is_finite(factor) or factor < 1:
            raise SettingError(
                f"{self!r}: factor is how many times farther to reach, and must be at least 1, "
                "a finite number"
            )
        if not is_whole(length) or length < 1:
            raise SettingError(
                f"{self!r} needs original_length: how many tokens the model was trained on"
            )

    @property
    def gain(self) -> float:
        return 1.0

    @property
    def frozen(self) -> bool:
        """Whether it is one of posenc's, which never say anything else; an own one may."""
        return type(self).__module__.startswith(_POSENCS)

    def gain_at(self, length: Int[Tensor, "..."] | None) -> Tensor | float | None:
        """The gain of inputs of this length, where it is not the same for all."""
        return None

    def check(self, base: float, dim: int) -> None:
        """Raise SettingError where these settings do not fit a Rotary of `dim` rotated ones."""
        if dim < 2 * self.fewest_pairs:
            raise SettingError(
                f"{self!r} in a Rotary that turns {dim} dimensions: its formula needs "
                f"{2 * self.fewest_pairs} or more"
            )

    def frequencies(self, theta: Theta, base: float, length: Length) -> Scaled:
        """The scaled frequencies of all pairs."""
        return theta

    def reference(self, i: int, base: float, dim: int, length: float) -> float:
        """The paper's frequency of pair i, for an input of this length, in Python's numbers."""
        formula = FREQUENCIES.get(type(self).__name__, default)
        return formula(i, base, dim, length, **vars(self))

    def reference_gain(self, length: float) -> float:
        """The paper's factor of the scores of turned dimensions, for an input of this length."""
        return GAINS.get(type(self).__name__, no_gain)(**vars(self)) ** 2


def by_turns(theta: Theta, original_length: int, low: float, high: float) -> Theta:
    """A ramp from 0 to 1 in how often each pair turns within the original length."""
    turns = original_length * theta / (2 * math.pi)
    # A ramp of no width is a step.
    return ((turns - low) / (high - low or 1e-12)).clamp(0.0, 1.0)


def check_ramp(scaling: Scaling, slow: str, fast: str) -> None:
    turns = {name: getattr(scaling, name) for name in (slow, fast)}
    finite(type(scaling).__name__, **turns)
    if not 0 < turns[slow] <= turns[fast]:
        raise SettingError(f"{scaling!r}: 0 < {slow} <= {fast} is needed")
