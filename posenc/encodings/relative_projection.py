from collections.abc import Iterator

import torch
from torch import Tensor, nn

from posenc.encoding import Context, Encoding, Keys, Pairs, Queries, Scores, Tags
from posenc.encodings._weights import linear_in_dtype
from posenc.errors import PositionsError, ShapeError, whole
from posenc.positions import Positions
from posenc.terms import GatherTable, Term
from posenc.torch_modes import autocast_off


class RelativeProjection(Encoding):
    """Each token mixes curves of the distance into the bias by which it looks back.

        r[i] = project(x[i])                             rank numbers for each head
        score[i, j] = scale * q[i] . k[j] + r[i, h] . curves[:, i - j]   for 0 <= i - j < extent

    and no bias elsewhere. rank curves of extent numbers are shared by all heads, and start at 2% of
    a normal distribution. x is the input of the layer, of width dim (c): a call needs
    context=Context(x=...), and its queries are the last of the tokens. No number per pair is
    stored. In Inkling, which has no other position, extent is the window of local layers, 512, and
    1024 elsewhere, scale is 1/head_dim, and Temperature("inkling") beside it lets both parts grow.
    Raises SettingError for settings < 1, ShapeError for x of another width.

    Source: Inkling (Thinking Machines 2026) as in transformers, models/inkling/modeling_inkling.py,
    InklingRelativeLogits; x-transformers' RelativeProjPositionalBias. No paper is known.
    """

    name = "relative_projection"
    family = "content"
    paper = "https://github.com/huggingface/transformers/tree/main/src/transformers/models/inkling"
    sizes = ("model_dim", "heads")
    tags = Tags(needs_context=True, translation_invariant=True)

    def __init__(self, dim: int, heads: int, extent: int = 1024, rank: int = 16) -> None:
        super().__init__()
        whole("RelativeProjection", dim=dim, heads=heads, extent=extent, rank=rank)
        self.dim, self.heads, self.extent, self.rank = dim, heads, extent, rank
        self.model_dim = dim
        self.project = nn.Linear(dim, heads * rank, bias=False)
        self.curves = nn.Parameter(torch.randn(rank, extent) * 0.02)

    @classmethod
    def for_model(cls, *, model_dim: int, heads: int, train_length: int, **_: object) -> Encoding:
        return cls(model_dim, heads, max(1, min(1024, train_length)))

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(16, heads=4, extent=4, rank=3)

    def lower(
        self,
        positions: Positions,
        context: Context | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Term, ...]:
        own = self._told(positions, context, dtype)
        # Rows of zeros at both ends, at which the table stays.
        end = self.curves.new_zeros(1, self.rank)
        rows = torch.cat((end, self.curves.mT.flip(0), end))
        return (GatherTable(rows[None], self.extent, "q", saturates=True, own=own),)

    def _told(self, positions: Positions, context: Context | None, dtype: torch.dtype) -> Tensor:
        """What each query tells, (b, h, tq, rank)."""
        x = None if context is None else context.x
        if context is None or x is None:
            raise PositionsError(f"{self!r} reads the layer's input: pass context=Context(x=...)")
        if x.ndim != 3 or x.shape[-1] != self.dim or not x.is_floating_point():
            raise ShapeError(
                f"{self!r} got Context(x=...) of shape {tuple(x.shape)} and {x.dtype}: "
                f"floating-point (batch, tokens, {self.dim}) is needed, the layer's input"
            )
        if x.shape[1] < positions.q_len:
            raise ShapeError(
                f"{self!r} got Context(x=...) of {x.shape[1]} tokens for {positions.q_len} "
                "queries: give the input of all of them"
            )
        own, before = context.own, x.shape[1] - positions.q_len
        # Of a cache's slots, x has the new tokens alone.
        x = x[:, before:] if own is None or before == 0 else x.index_select(1, own)
        wide = torch.promote_types(x.dtype, self.project.weight.dtype)
        with autocast_off(x.device):
            told = linear_in_dtype(x.to(torch.promote_types(wide, dtype)), self.project)
        told = told.unflatten(-1, (self.heads, self.rank)).transpose(1, 2)
        valid = positions.queries.valid
        # What is not a number in padding would reach the gradient of the curves.
        return told if valid is None else told.masked_fill(~valid[:, None, :, None], 0.0)

    def reference_scores(self, q: Queries, k: Keys, at: Pairs) -> Scores:
        assert at.context is not None
        assert at.context.x is not None
        total = at.scale * torch.einsum("bhid,bhjd->bhij", q, k)
        x = at.context.x[:, -q.shape[2] :]
        told = (x @ self.project.weight.T).view(*x.shape[:2], q.shape[1], self.rank)
        for n in range(self.extent):
            bias = torch.einsum("bihe,e->bhi", told, self.curves[:, n])
            total = total + bias[..., None] * (at.distance() == -n)
        return total
