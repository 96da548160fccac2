from dataclasses import dataclass

from posenc.encodings._rotary import geometric
from posenc.encodings.scaling.base import Length, Scaled, Scaling, Theta


@dataclass(frozen=True)
class DynamicNTK(Scaling):
    """NTK that grows with the length L of the input, beyond the original length L0.

        h[i] = (base * (factor * L/L0 - (factor - 1))**(d/(d-2)))**(-2i/d),   L = max(L, L0)

    Each row and each packed document is scaled by its own length, whoever shares its batch
    (transformers takes the longest of the batch for all). Decoding needs Cache(length=...). Raises
    SettingError for factor < 1, original_length < 1, and a Rotary that turns a single pair.

    Source: bloc97 and emozilla 2023, as in transformers; arXiv:2309.00071, section 3.3.
    """

    factor: float
    original_length: int

    length_dependent = True
    fewest_pairs = 2

    def frequencies(self, theta: Theta, base: float, length: Length) -> Scaled:
        if length is None:
            return theta
        turned = 2 * theta.shape[-1]
        reach = length.double().clamp(min=self.original_length)
        growth = self.factor * reach / self.original_length - (self.factor - 1)
        return geometric(base * growth ** (turned / (turned - 2)), turned, theta.device)

    def reference(self, i: int, base: float, turned: int, length: float) -> float:
        beyond = max(length / self.original_length - 1, 0.0)
        return base ** (-2 * i / turned) * (1 + self.factor * beyond) ** (-2 * i / (turned - 2))
