import math
from dataclasses import dataclass
from typing import Literal

import torch

from posenc.encodings.scaling.base import Length, Scaled, Scaling, Theta, by_turns, check_ramp
from posenc.errors import SettingError, given, one_of, positive


@dataclass(frozen=True)
class YaRN(Scaling):
    """Fast pairs as they are, slow ones interpolated, a ramp in between, and sharper scores.

        h[i] = share[i] * theta[i] + (1 - share[i]) * theta[i] / factor
        gain = m(1), or m(mscale) / m(mscale_all_dim),   m(x) = 0.1 * x * ln(factor) + 1

    share falls from 1, for a pair that turns beta_fast times within original_length tokens, to 0
    for one that turns beta_slow times. ramp "code" is linear in i between the two, as checkpoints
    are, and truncate rounds both outwards to whole pairs (gpt-oss: False). ramp "paper" is linear
    in the number of turns, with nothing to truncate.

    The gain multiplies cos and sin: scores of turned dimensions get its square, others nothing.
    attention_factor is final, as in transformers; the attn_factor of YaRN's own code and of vLLM
    multiplies m(1), so give the product. DeepSeek multiplies the scale of all scores by
    m(mscale_all_dim)**2 besides: that is attend(scale=...).

    Raises SettingError for factor < 1, a missing original_length, beta_fast < beta_slow, one
    mscale without the other, and where the code's ramp would run backwards.

    Source: Peng et al. 2023, arXiv:2309.00071, definitions 2 and 3, and the authors' code.
    """

    factor: float
    original_length: int = 0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    ramp: Literal["code", "paper"] = "code"
    truncate: bool = True
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ramp(self, "beta_slow", "beta_fast")
        one_of("YaRN", ("code", "paper"), ramp=self.ramp)
        if (self.mscale is None) != (self.mscale_all_dim is None):
            raise SettingError(
                f"{self!r}: libraries differ on what mscale or mscale_all_dim alone means; "
                "give both, or attention_factor"
            )
        gains = {"mscale": self.mscale, "mscale_all_dim": self.mscale_all_dim}
        positive("YaRN", **given(attention_factor=self.attention_factor, **gains))
        one_of("YaRN", (False, True), truncate=self.truncate)

    def check(self, base: float, dim: int) -> None:
        super().check(base, dim)
        if self.ramp == "paper":
            return
        first, last = self._ends(base, dim) if base > 1 else (1, 0)
        if first > last:
            raise SettingError(
                f"{self!r} in a Rotary of base {base} that turns {dim} dimensions: the ramp of "
                "the authors' code would run backwards; ramp='paper' has a meaning here"
            )

    @property
    def gain(self) -> float:
        if self.attention_factor is not None:
            return self.attention_factor
        log = 0.1 * math.log(self.factor)
        if self.mscale is not None and self.mscale_all_dim is not None:
            return (self.mscale * log + 1.0) / (self.mscale_all_dim * log + 1.0)
        return log + 1.0

    def frequencies(self, theta: Theta, base: float, length: Length) -> Scaled:
        share = self.share(theta, base)
        return share * theta + (1 - share) * theta / self.factor

    def share(self, theta: Theta, base: float) -> Theta:
        """How much of each pair stays as it is."""
        if self.ramp == "paper":
            return by_turns(theta, self.original_length, self.beta_slow, self.beta_fast)
        first, last = self._ends(base, 2 * theta.shape[-1])
        i = torch.arange(theta.shape[-1], dtype=torch.float64, device=theta.device)
        return 1 - ((i - first) / (last - first or 0.001)).clamp(0.0, 1.0)

    def _ends(self, base: float, dim: int) -> tuple[float, float]:
        """Between which pairs the ramp of the code runs."""
        first, last = (
            dim * math.log(self.original_length / (turns * 2 * math.pi)) / (2 * math.log(base))
            for turns in (self.beta_fast, self.beta_slow)
        )
        if self.truncate:
            first, last = math.floor(first), math.ceil(last)
        return max(first, 0), min(last, dim - 1)
