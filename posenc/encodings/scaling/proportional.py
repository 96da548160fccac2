from dataclasses import dataclass

import torch

from posenc.encodings.scaling.base import Length, Scaled, Scaling, Theta
from posenc.errors import SettingError, finite


@dataclass(frozen=True)
class Proportional(Scaling):
    """p-RoPE: only the fastest pairs turn, at the frequencies that they have in the whole head.

        h[i] = theta[i] for i < fraction * d/2, 0 beyond

    Not rotary_dim, which counts frequencies over the turned dimensions alone and, in layout "half",
    pairs (i, i + rotary_dim/2), not (i, i + dim/2). Raises SettingError for a fraction outside
    (0, 1], and one that leaves no pair to turn.

    Source: Barbero et al. 2025, arXiv:2410.06205, section 6, and transformers' "proportional".
    """

    fraction: float

    def __post_init__(self) -> None:
        super().__post_init__()
        finite("Proportional", fraction=self.fraction)

    def check(self, base: float, dim: int) -> None:
        super().check(base, dim)
        if not 2 <= self.fraction * dim <= dim:
            raise SettingError(
                f"{self!r} in a Rotary that turns {dim} dimensions: fraction is at most 1, and "
                f"at least {2 / dim}, so that a pair turns"
            )

    def frequencies(self, theta: Theta, base: float, length: Length) -> Scaled:
        dim = 2 * theta.shape[-1]
        i = torch.arange(theta.shape[-1], device=theta.device)
        return theta * (i < int(self.fraction * dim // 2))
