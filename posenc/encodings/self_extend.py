import itertools
from collections.abc import Iterator

import torch
from torch import Tensor

from posenc.encoding import Context, Encoding, Keys, Pairs, Queries, Scores, Tags
from posenc.encodings._turning import check_layout
from posenc.encodings._zones import rope_at, zones
from posenc.errors import even, positive
from posenc.positions import Positions
from posenc.terms import Layout, Term


class SelfExtend(Encoding):
    """RoPE up to a window; beyond it tokens share positions in groups.

        distance(m, n) = m - n                                      where m - n < window
                         floor(m / group) + window - floor(window / group)
                             - floor(n / group)                     beyond

        score = scale * q[m] . R[-distance] k[n],   turning as in Rotary

    so that a model trained on L tokens reads (L - window) * group + window of them (where group
    divides window) without further training. Groups begin at position 0, so moving all tokens
    changes scores. window and group are in tokens. Causal only; decoding needs Cache("raw"). Raises
    SettingError for an odd dim, window < 1 or group < 1.

    Source: Jin et al. 2024, arXiv:2401.01325, section 3 and algorithm 1.
    """

    name = "self_extend"
    family = "rotary"
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
        super().__init__()
        self.dim = self.head_dim = even("SelfExtend", "dim", dim)
        positive("SelfExtend", window=window, group=group, base=base)
        check_layout("SelfExtend", layout)
        self.window, self.group, self.base = window, group, base
        self.layout: Layout = layout

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

    def lower(
        self,
        positions: Positions,
        context: Context | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Term, ...]:
        q, k = positions.one_axis("SelfExtend")
        far = self._grouped(q) + self.window - self.window // self.group, self._grouped(k)
        rope = {"dim": self.dim, "base": self.base, "layout": self.layout}
        return (zones(positions, far, self.window, **rope),)

    def _grouped(self, at: Tensor) -> Tensor:
        return torch.div(at, self.group, rounding_mode="floor")

    def reference_scores(self, q: Queries, k: Keys, at: Pairs) -> Scores:
        def group_of(position: Tensor) -> Tensor:
            return torch.floor(position / self.group)

        back = -at.distance()
        shift = self.window - self.window // self.group
        far = (group_of(at.q) + shift)[:, None, :, None] - group_of(at.k)[:, None, None, :]
        back = torch.where(back < self.window, back, far)
        return at.scale * rope_at(q, k, back, base=self.base, layout=self.layout)
