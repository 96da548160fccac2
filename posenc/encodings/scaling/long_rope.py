import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from posenc.encodings.scaling.base import Length, Scaled, Scaling, Theta
from posenc.errors import SettingError, given, listed, positive


@dataclass(frozen=True)
class LongRoPE(Scaling):
    """A divisor found by search for every pair: one list for short inputs, one for long ones.

        h[i] = theta[i] / (long[i] if L > L0 else short[i]),   gain = sqrt(1 + ln(factor) / ln(L0))

    L is the length of the row or packed document, whoever shares its batch, L0 the original_length;
    decoding needs Cache(length=...). factor is the target length over L0, and enters the gain only,
    which attention_factor replaces. Raises SettingError for factor < 1, original_length < 2,
    divisors that are not positive, and lists that do not hold d/2 of them.

    Source: Ding et al. 2024, arXiv:2402.13753, section 3; the gain: Phi-3's code.
    """

    short: Sequence[float]
    long: Sequence[float]
    original_length: int
    factor: float
    attention_factor: float | None = None

    length_dependent = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.original_length < 2:
            raise SettingError(f"{self!r}: the gain divides by ln(original_length)")
        for name in ("short", "long"):
            # As tuples the value can be hashed, and shows itself alike however it was given.
            divisors = listed("LongRoPE", **{name: getattr(self, name)})
            object.__setattr__(self, name, divisors)
            for divisor in divisors:
                positive("LongRoPE", **{name: divisor})
        positive("LongRoPE", **given(attention_factor=self.attention_factor))

    def check(self, base: float, dim: int) -> None:
        super().check(base, dim)
        if not len(self.short) == len(self.long) == dim // 2:
            raise SettingError(
                f"LongRoPE with {len(self.short)} short and {len(self.long)} long divisors in a "
                f"Rotary that turns {dim} dimensions: one per pair, {dim // 2}, is needed"
            )

    @property
    def gain(self) -> float:
        if self.attention_factor is not None:
            return self.attention_factor
        return math.sqrt(1.0 + math.log(self.factor) / math.log(self.original_length))

    def frequencies(self, theta: Theta, base: float, length: Length) -> Scaled:
        short, long = (
            torch.tensor(divisors, dtype=torch.float64, device=theta.device)
            for divisors in (self.short, self.long)
        )
        if length is None:
            return theta / short
        return theta / torch.where(length > self.original_length, long, short)
