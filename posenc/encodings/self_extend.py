import itertools
from collections.abc import Iterator

import torch
from jaxtyping import Float64
from torch import Tensor

from posenc.encoding import Encoding, Pairs, Tags
from posenc.encodings._rotary import TwoZones
from posenc.errors import whole
from posenc.terms import Layout


class SelfExtend(TwoZones):
    """RoPE up to a window; beyond it tokens share positions in groups.

        distance(m, n) = m - n                                      where m - n < window
                         floor(m / group) + window - floor(window / group)
                             - floor(n / group)                     beyond

        score = scale * q[m] . R[-distance] k[n],   turning as in Rotary

    so that a model trained on L tokens reads (L - window) * group + window of them (where group
    divides window) without further training. Groups begin at position 0, so moving all tokens
    changes scores. The window counts tokens, also where explicit positions leave gaps, and groups
    count positions. Causal only; decoding needs Cache("raw"). Raises SettingError for an odd dim,
    window < 1 or group < 1.

    Source: Jin et al. 2024, arXiv:2401.01325, section 3 and algorithm 1.
    """

    name = "self_extend"
    paper = "arXiv:2401.01325"
    tags = Tags(causal_only=True, norm_preserving=True)

    def __init__(
        self,
        dim: int,
        window: int,
        group: int,
        base: float = 10_000.0,
        layout: Layout = "half",
    ) -> None:
        super().__init__(dim, window, base, layout)
        whole("SelfExtend", window=window, group=group)
        self.group = group

    @classmethod
    def for_model(
        cls, *, head_dim: int, train_length: int, max_length: int, **_: object
    ) -> Encoding:
        window = max(1, train_length // 2)
        groups = max(1, train_length - window)
        # The smallest group with which max_length tokens meet trained distances only.
        fits = (g for g in itertools.count(1) if (groups + window // g) * g >= max_length)
        return cls(head_dim, window, next(fits))

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(16, window=3, group=2)
        yield cls(12, window=2, group=3, base=500.0, layout="interleaved")

    def far(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        q, k = (torch.div(x, self.group, rounding_mode="floor") for x in (q, k))
        return q + self.window - self.window // self.group, k

    def reference_back(self, at: Pairs) -> Float64[Tensor, "b 1 tq tk"]:
        q, k = (torch.floor(x / self.group) for x in (at.q, at.k))
        back, shift = -at.distance(), self.window - self.window // self.group
        far = (q + shift)[:, None, :, None] - k[:, None, None, :]
        return torch.where(self.near(at), back, far)
