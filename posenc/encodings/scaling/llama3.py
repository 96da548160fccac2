from dataclasses import dataclass

from posenc.encodings.scaling.base import Length, Scaled, Scaling, Theta, by_turns, check_ramp


@dataclass(frozen=True)
class Llama3(Scaling):
    """The ramp of YaRN's paper without its gain, for Llama 3.1 and later.

        h[i] = share[i] * theta[i] + (1 - share[i]) * theta[i] / factor

    share rises from 0, for a pair that turns low_freq_factor times within original_length tokens,
    to 1 for one that turns high_freq_factor times. Raises SettingError for factor < 1,
    original_length < 1, and high_freq_factor < low_freq_factor (Llama 4 Scout has them equal).

    Source: Meta's code for Llama 3.1, apply_scaling; arXiv:2407.21783 gives the base alone.
    """

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_length: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ramp(self, "low_freq_factor", "high_freq_factor")

    def frequencies(self, theta: Theta, base: float, length: Length) -> Scaled:
        ends = (self.low_freq_factor, self.high_freq_factor)
        share = by_turns(theta, self.original_length, *ends)
        return share * theta + (1 - share) * theta / self.factor
