from collections.abc import Iterator
from typing import Literal

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from posenc.encoding import Context, Encoding, Keys, Pairs, Queries, Scores, Tags
from posenc.encodings._rotary import geometric
from posenc.errors import even, given, one_of, whole
from posenc.positions import Positions
from posenc.terms import GatherTable, Term, ValueTable


class Shaw(Encoding):
    """A vector per clipped distance joins each key, and each value.

        score[i, j] = scale * q[i] . (k[j] + a_k[clip(j - i)])
        out[i] = sum over j of p[i, j] * (v[j] + a_v[clip(j - i)])

    clip(x) = max(-clip, min(future, x)), future None being clip; tables (clip + future + 1, dim),
    shared by all heads. values=False leaves a_v out. dim is the head dimension, of keys and of
    values. table "learned" trains both tables. "sinusoidal" is NEZHA: for both one fixed table,
    a[x, 2i] = sin(x * 10000**(-2i/dim)), a[x, 2i+1] = cos(x * 10000**(-2i/dim)); "nezha" is that
    of NEZHA's checkpoints, whose code takes x + clip for x. Checkpoints of BERT that count i - j
    need their rows flipped. Music Transformer's relative logits are these scores with values=False,
    future=0 and a clip as long as its input; its skewing is a way to compute them. Raises
    SettingError for dim or clip < 1, for future < 0, and for a sinusoidal table of odd dim.

    Source: Shaw et al. 2018, arXiv:1803.02155, equations 3 and 4; Wei et al. 2019,
    arXiv:1909.00204, on functional relative positional encoding; Huang et al. 2018,
    arXiv:1809.04281.
    """

    name = "shaw"
    family = "content"
    paper = "arXiv:1803.02155"
    tags = Tags(translation_invariant=True)

    def __init__(
        self,
        dim: int,
        clip: int = 16,
        values: bool = True,
        table: Literal["learned", "sinusoidal", "nezha"] = "learned",
        future: int | None = None,
    ) -> None:
        super().__init__()
        whole("Shaw", dim=dim, clip=clip)
        whole("Shaw", 0, **given(future=future))
        one_of("Shaw", ("learned", "sinusoidal", "nezha"), table=table)
        one_of("Shaw", (False, True), values=values)
        self.dim = dim if table == "learned" else even("Shaw", "dim", dim)
        self.clip, self.values, self.table, self.future = clip, values, table, future
        self.head_dim = dim
        self.rows = clip + (clip if future is None else future) + 1
        self.keys_weight = self._trained() if table == "learned" else None
        self.values_weight = self._trained() if table == "learned" and values else None

    @classmethod
    def for_model(cls, *, head_dim: int, train_length: int, **_: object) -> Encoding:
        return cls(head_dim, clip=max(1, min(16, train_length // 2)))

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(16, clip=4)
        yield cls(16, clip=3, values=False, future=1)
        yield cls(16, clip=4, table="sinusoidal")

    def lower(
        self,
        positions: Positions,
        context: Context | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Term, ...]:
        device = positions.device
        keys = self._lookup(self.keys_weight, device, dtype)
        terms: list[Term] = [GatherTable(keys, zero=self.clip, side="q", saturates=True)]
        if self.values:
            values = self._lookup(self.values_weight, device, dtype)
            terms.append(ValueTable(values, zero=self.clip, saturates=True))
        return tuple(terms)

    def _trained(self) -> nn.Parameter:
        return nn.Parameter(torch.randn(self.rows, self.dim) * self.dim**-0.5)

    def _lookup(
        self, weight: Tensor | None, device: torch.device, dtype: torch.dtype
    ) -> Float[Tensor, "1 rows d"]:
        if weight is not None:
            return weight[None]
        first = -self.clip if self.table == "sinusoidal" else 0
        step = torch.arange(first, first + self.rows, dtype=torch.float64, device=device)
        angle = step[:, None] * geometric(10_000.0, self.dim, device)
        return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(-2).to(dtype)[None]

    def reference_scores(self, q: Queries, k: Keys, at: Pairs) -> Scores:
        moved = k[:, :, None] + self._vectors(self.keys_weight, at)[:, None]
        return at.scale * torch.einsum("bhid,bhijd->bhij", q, moved)

    def reference_output(self, p: Scores, v: Keys, at: Pairs) -> Queries:
        if not self.values:
            return super().reference_output(p, v, at)
        moved = v[:, :, None] + self._vectors(self.values_weight, at)[:, None]
        return torch.einsum("bhij,bhijd->bhid", p, moved)

    def _vectors(self, weight: Tensor | None, at: Pairs) -> Float64[Tensor, "b tq tk d"]:
        step = at.distance()[:, 0].clamp(-self.clip, self.rows - 1 - self.clip)
        if weight is not None:
            return weight.double()[step.round().long() + self.clip]
        x = step if self.table == "sinusoidal" else step + self.clip
        a = x.new_zeros(*x.shape, self.dim)
        for i in range(self.dim // 2):
            a[..., 2 * i] = torch.sin(x / 10_000 ** (2 * i / self.dim))
            a[..., 2 * i + 1] = torch.cos(x / 10_000 ** (2 * i / self.dim))
        return a
