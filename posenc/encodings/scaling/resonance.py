import math
from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor

from posenc.encodings.scaling.base import Length, Scaled, Scaling, Theta
from posenc.errors import SettingError


@dataclass(frozen=True)
class Resonance(Scaling):
    """Wavelengths rounded to whole tokens, of another scaling or of RoPE's own.

        wavelength[i] = round(2 pi / h[i]),   frequency[i] = 2 pi / wavelength[i]

    h are the frequencies of `scaling`. A pair whose wavelength is whole turns by the same angles
    again and again: within the trained length it has seen all that it will ever see. Pairs
    that do not turn once within that length change by little and gain nothing. Resonance YaRN is
    Resonance(YaRN(4, 4096)). The gain and what depends on the length are those of `scaling`.

    Raises SettingError for what is no scaling, and what that raises.

    Source: Wang et al. 2024, arXiv:2403.00071, section 4, algorithm 1.
    """

    scaling: Scaling | None = None

    def __post_init__(self) -> None:
        if not isinstance(self._inner, Scaling):
            raise SettingError(f"{self!r}: this is no scaling; give one such as YaRN(4, 4096)")

    @property
    def _inner(self) -> Scaling:
        return Scaling() if self.scaling is None else self.scaling

    @property
    def frozen(self) -> bool:
        return super().frozen and self._inner.frozen

    @property
    def length_dependent(self) -> bool:  # pyrefly: ignore[bad-override]
        return self._inner.length_dependent

    @property
    def gain(self) -> float:
        return self._inner.gain

    def gain_at(self, length: Int[Tensor, "..."] | None) -> Tensor | float | None:
        return self._inner.gain_at(length)

    def check(self, base: float, dim: int) -> None:
        self._inner.check(base, dim)

    def frequencies(self, theta: Theta, base: float, length: Length) -> Scaled:
        scaled = self._inner.frequencies(theta, base, length)
        return 2 * math.pi / (2 * math.pi / scaled).round()

    def reference(self, i: int, base: float, dim: int, length: float) -> float:
        frequency = self._inner.reference(i, base, dim, length)
        return 2 * math.pi / round(2 * math.pi / frequency) if frequency else 0.0

    def reference_gain(self, length: float) -> float:
        return self._inner.reference_gain(length)
