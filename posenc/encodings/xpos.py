import math
from collections.abc import Iterator

import torch
from jaxtyping import Float64
from torch import Tensor

from posenc.encoding import Encoding, Keys, Pairs, Queries, Scores, Tags
from posenc.encodings._rotary import RotaryEncoding, angle, rotated_dot
from posenc.errors import positive
from posenc.positions import Positions
from posenc.terms import Layout, Rotate
from posenc.torch_modes import settled


class XPos(RotaryEncoding):
    """RoPE whose pairs also fade with distance, the fast ones first.

        zeta[i] = (2i/dim + gamma) / (1 + gamma)
        pair i of q[m] . k[n] is turned by (m - n) * base**(-2i/dim)
        and multiplied by zeta[i]**((m - n) / scale_base)

    scale_base is in tokens. Queries shrink by zeta**(m / scale_base) and keys grow by
    zeta**(-n / scale_base) from position 0, which overflows float32 beyond 36,260 tokens; here
    both stay logarithms until one call's origin is known. The factor grows without bound into the
    future, so it is causal only. Raises SettingError for an odd dim and for settings <= 0.

    Source: Sun et al. 2022, arXiv:2212.10554, equations 9 and 10; scale_base is torchscale's.
    """

    name = "xpos"
    paper = "arXiv:2212.10554"
    tags = Tags(causal_only=True, translation_invariant=True)

    def __init__(
        self,
        dim: int,
        scale_base: float = 512.0,
        base: float = 10_000.0,
        layout: Layout = "half",
        gamma: float = 0.4,
    ) -> None:
        super().__init__(dim, base, layout)
        positive("XPos", scale_base=scale_base, gamma=gamma)
        self.scale_base, self.gamma = scale_base, gamma

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(16)
        yield cls(10, scale_base=8.0, base=500.0, layout="interleaved")

    def rotation(self, positions: Positions) -> Rotate:
        q, k = positions.one_axis("XPos")
        turning, fading = self.theta(q.device), self.fading(q.device)
        tokens = q.double()
        q_angle, q_log = angle(tokens, turning), angle(tokens, fading)
        if q is k:
            return Rotate(q_angle, q_angle, self.layout, q_log_scale=q_log, k_log_scale=-q_log)
        # q and k count from the same 0, so that a short q beside a long k keeps its distances.
        tokens = k.double()
        k_angle, k_log = angle(tokens, turning), -angle(tokens, fading)
        return Rotate(q_angle, k_angle, self.layout, q_log_scale=q_log, k_log_scale=k_log)

    def fading(self, device: torch.device) -> Float64[Tensor, "r"]:
        """log(zeta) / scale_base of each pair, kept for the tokens to come."""

        def computed() -> Tensor:
            zeta = torch.arange(0, self.dim, 2, dtype=torch.float64, device=device).div_(self.dim)
            return zeta.add_(self.gamma).div_(1 + self.gamma).log_().div_(self.scale_base)

        return settled(self, "fading", (self.dim, self.gamma, self.scale_base), device, computed)

    def reference_scores(self, q: Queries, k: Keys, at: Pairs) -> Scores:
        back, pairs = -at.distance(), self.dim // 2
        total = torch.zeros_like(back)
        for i in range(pairs):
            one, two = (i, i + pairs) if self.layout == "half" else (2 * i, 2 * i + 1)
            zeta = (i / pairs + self.gamma) / (1 + self.gamma)
            angles = back[..., None] * self.base ** (-2 * i / self.dim)
            part = rotated_dot(q[..., [one, two]], k[..., [one, two]], angles, "interleaved")
            total = total + part * torch.exp(back / self.scale_base * math.log(zeta))
        return at.scale * total
