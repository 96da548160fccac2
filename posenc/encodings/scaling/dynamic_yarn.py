from dataclasses import dataclass
from typing import Literal

from jaxtyping import Int
from torch import Tensor

from posenc.encodings.scaling.base import Length, Scaled, Scaling, Theta
from posenc.encodings.scaling.yarn import YaRN
from posenc.frequencies import yarn_gain
from posenc.torch_modes import named


@dataclass(frozen=True)
class DynamicYaRN(Scaling):
    """YaRN whose factor is how much longer than the original length L0 the input is.

        h[i] = share[i] * theta[i] + (1 - share[i]) * theta[i] / s,   s = max(factor, L / L0)
        gain = 0.1 * ln(s) + 1

    Up to L0 nothing changes, where YaRN of a fixed factor changes every input. share, beta_fast,
    beta_slow, ramp and truncate are as in YaRN; factor is that which the model was trained with,
    where it was. L is the length of the row or packed document, whoever shares its batch; decoding
    needs Cache(length=...). The gain grows with the length and so multiplies whole scores, by its
    square: all dimensions must turn, unless attention_factor fixes it. Raises SettingError as
    YaRN does, and where dimensions rest.

    Source: Peng et al. 2023, arXiv:2309.00071, section 3.4, and the authors' code.
    """

    original_length: int
    factor: float = 1.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    ramp: Literal["code", "paper"] = "code"
    truncate: bool = True
    attention_factor: float | None = None

    length_dependent = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._fixed()

    def check(self, base: float, dim: int) -> None:
        super().check(base, dim)
        self._fixed().check(base, dim)

    @property
    def gain(self) -> float:
        return 1.0 if self.attention_factor is None else self.attention_factor

    def gain_at(self, length: Int[Tensor, "..."] | None) -> Tensor | float | None:
        if self.attention_factor is not None:
            return None
        return 0.1 * self._stretch(length).log() + 1.0 if length is not None else self._fixed().gain

    def frequencies(self, theta: Theta, base: float, length: Length) -> Scaled:
        share = self._fixed().share(theta, base)
        stretch = self.factor if length is None else self._stretch(length)
        return share * theta + (1 - share) * theta / stretch

    def reference_gain(self, length: float) -> float:
        stretch = max(self.factor, length / self.original_length)
        return yarn_gain(factor=stretch, attention_factor=self.attention_factor) ** 2

    def _stretch(self, length: Tensor) -> Tensor:
        return (length.double() / self.original_length).clamp(min=self.factor)

    def _fixed(self) -> YaRN:
        return YaRN(**named(self))
