from dataclasses import dataclass

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

    def frequencies(self, theta: Theta, base: float, length: Length) -> Scaled:
        turned = 2 * theta.shape[-1]
        return geometric(base * self.factor ** (turned / (turned - 2)), turned, theta.device)

    def reference(self, i: int, base: float, turned: int, length: float) -> float:
        return base ** (-2 * i / turned) * self.factor ** (-2 * i / (turned - 2))
