from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import nn

from posenc.encoding import Context, Encoding, Keys, Pairs, Queries, Scores, Tags, bound_for
from posenc.encodings._rotary import geometric
from posenc.encodings._weights import head_dim_of
from posenc.errors import even, given, positive, whole
from posenc.positions import Positions
from posenc.terms import GatherTable, Term
from posenc.torch_modes import autocast_off


class TransformerXL(Encoding):
    """A sinusoid of the distance, projected, meets each query; two trained vectors join queries.

        score[i, j] = scale * ((q[i] + u) . k[j] + (q[i] + v) . (R[i - j] W))
        R[x, m] = sin(x * base**(-2m/dim)),   R[x, m + dim/2] = cos(x * base**(-2m/dim))

    R has rows of width dim; projection W (dim, heads, head_dim), content_bias u and position_bias
    v (heads, head_dim) are trained, and head_dim None is dim // heads. Distances are in tokens and
    reach both ways, with or without causality. clamp keeps i - j within +-clamp; without it each
    forward makes a row for every distance, so a bare tensor of positions, which does not tell how
    far it reaches, raises PositionsError. Raises SettingError for an odd dim, for a dim that is
    not a multiple of heads where head_dim is left out, and for clamp < 1.

    Source: Dai et al. 2019, arXiv:1901.02860, section 3.3, and the authors' code for R's order.
    """

    name = "transformer_xl"
    family = "content"
    paper = "arXiv:1901.02860"
    sizes = ("model_dim", "heads", "head_dim")
    tags = Tags(translation_invariant=True, needs_extent=True)

    def __init__(
        self,
        dim: int,
        heads: int,
        head_dim: int | None = None,
        clamp: int | None = None,
        base: float = 10_000.0,
    ) -> None:
        super().__init__()
        positive("TransformerXL", base=base)
        whole("TransformerXL", **given(clamp=clamp))
        head_dim = head_dim_of("TransformerXL", dim, heads, head_dim)
        self.dim = self.model_dim = even("TransformerXL", "dim", dim)
        self.heads, self.head_dim, self.clamp, self.base = heads, head_dim, clamp, base
        self.tags = replace(self.tags, needs_extent=clamp is None)
        self.projection = nn.Parameter(torch.randn(dim, heads, head_dim) * dim**-0.5)
        self.content_bias = nn.Parameter(torch.randn(heads, head_dim) * 0.02)
        self.position_bias = nn.Parameter(torch.randn(heads, head_dim) * 0.02)

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(16, heads=4)
        yield cls(10, heads=3, head_dim=8, clamp=4, base=500.0)

    def lower(
        self,
        positions: Positions,
        context: Context | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Term, ...]:
        far = bound_for(self, positions) - 1 if self.clamp is None else self.clamp
        device = self.projection.device
        back = torch.arange(far, -far - 1, -1, dtype=torch.float64, device=device)
        angle = back[:, None] * geometric(self.base, self.dim, device)
        dtype = torch.promote_types(self.projection.dtype, dtype)
        waves = torch.cat((angle.sin(), angle.cos()), dim=-1).to(dtype)
        with autocast_off(device):
            rows = torch.einsum("nc,chd->hnd", waves, self.projection.to(dtype))
        clamped = self.clamp is not None
        return (
            GatherTable(rows, zero=far, side="q", bias=self.position_bias, saturates=clamped),
            GatherTable(self.content_bias[:, None], zero=0, side="k", saturates=True),
        )

    def reference_scores(self, q: Queries, k: Keys, at: Pairs) -> Scores:
        back = -at.distance()[:, 0]
        if self.clamp is not None:
            back = back.clamp(-self.clamp, self.clamp)
        half = self.dim // 2
        r = back.new_zeros(*back.shape, self.dim)
        for m in range(half):
            r[..., m] = torch.sin(back / self.base ** (2 * m / self.dim))
            r[..., m + half] = torch.cos(back / self.base ** (2 * m / self.dim))
        keys = torch.einsum("bijc,chd->bhijd", r, self.projection)
        u, v = self.content_bias[:, None], self.position_bias[:, None]
        content = torch.einsum("bhid,bhjd->bhij", q + u, k)
        return at.scale * (content + torch.einsum("bhid,bhijd->bhij", q + v, keys))
