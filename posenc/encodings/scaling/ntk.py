from dataclasses import dataclass

from torch import Tensor

from posenc.encodings._rotary import geometric
from posenc.encodings.scaling.base import Length, Scaled, Scaling, Theta


@dataclass(frozen=True)
class NTK(Scaling):
    """A larger base, by which the fastest pair is kept and the slowest interpolated.

        h[i] = (base * factor**(d/(d-2)))**(-2i/d) = theta[i] * factor**(-2i/(d-2))

    Raises SettingError for factor < 1, and for a Rotary that turns a single pair.

    Source: bloc97 2023, as given in arXiv:2309.00071, definition 1.
    """

    factor: float

    fewest_pairs = 2

    def growth(self, length: Length) -> float | Tensor:
        """What the factor is for inputs of this length."""
        return self.factor

    def frequencies(self, theta: Theta, base: float, length: Length) -> Scaled:
        dim = 2 * theta.shape[-1]
        return geometric(base * self.growth(length) ** (dim / (dim - 2)), dim, theta.device)


@dataclass(frozen=True)
class DynamicNTK(NTK):
    """NTK that grows with the length L of the input, beyond the original length L0.

        h[i] = (base * (factor * L/L0 - (factor - 1))**(d/(d-2)))**(-2i/d),   L = max(L, L0)

    Each row and each packed document is scaled by its own length, whoever shares its batch
    (transformers takes the longest of the batch for all). Decoding needs Cache(length=...). Raises
    SettingError for factor < 1, original_length < 1, and a Rotary that turns a single pair.

    Source: bloc97 and emozilla 2023, as in transformers; arXiv:2309.00071, section 3.3.
    """

    original_length: int

    length_dependent = True

    def growth(self, length: Length) -> float | Tensor:
        if length is None:
            return 1.0
        reach = length.double().clamp(min=self.original_length)
        return self.factor * reach / self.original_length - (self.factor - 1)
