from dataclasses import dataclass

from posenc.encodings.scaling.base import Length, Scaled, Scaling, Theta


@dataclass(frozen=True)
class Linear(Scaling):
    """Position interpolation: every frequency is divided by the factor.

        h[i] = theta[i] / factor

    Raises SettingError for factor < 1.

    Source: Chen et al. 2023, arXiv:2306.15595, equation 4.
    """

    factor: float

    def frequencies(self, theta: Theta, base: float, length: Length) -> Scaled:
        return theta / self.factor
