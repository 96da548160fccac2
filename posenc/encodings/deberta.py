import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from posenc.encoding import Context, Encoding, Keys, Pairs, Queries, Scores, Tags
from posenc.encodings._weights import head_dim_of, linear_in_dtype
from posenc.errors import PositionsError, SettingError, given, one_of, whole
from posenc.positions import Positions
from posenc.terms import GatherTable, Scale, Term
from posenc.torch_modes import autocast_off

# What the norm of the table adds to the variance, as checkpoints of versions 2 and 3 do.
EPSILON = 1e-7


class DeBERTa(Encoding):
    """Disentangled attention: contents meet relative positions, seen from the query and the key.

        score[i, j] = scale / sqrt(1 + n) * (q[i] . k[j] + q[i] . K[row] + k[j] . Q[row])
        row = min(max(bucket(i - j) + size, 0), 2 * size - 1)

    K and Q (heads, 2 * size, head_dim) project one trained table (2 * size, dim). terms names
    which of the n last products are there: "c2p" is q . K, "p2c" is k . Q. The paper's p2c reads
    bucket(j - i); the authors' code, and every checkpoint, reads bucket(i - j) in both.

    buckets None (version 1): size = span, and bucket(x) = x. Else (versions 2 and 3) size is
    buckets, distances up to mid = buckets/2 have rows of their own, and farther ones share
    bucket(x) = sign(x) * (mid + ceil(log(|x|/mid) / log((span - 1)/mid) * (mid - 1))), in float32
    as in checkpoints. projections "layer" uses the key and query weights of the layer, which
    `Context` gives as functions of a table in at least float32; "own" trains weights of its own,
    key_projection and query_projection. norm puts a LayerNorm on the table. head_dim None is
    dim // heads.

    Raises SettingError for sizes below 1, a dim that is not a multiple of heads where head_dim is
    left out, odd buckets or fewer than 4, a span that the rows of single distances already cover,
    and unknown terms; PositionsError where the layer's projections are not given.

    Source: He et al. 2021, arXiv:2006.03654, section 3.1 and equations 2 to 4; version 3,
    arXiv:2111.09543; buckets: the authors' code of version 2.
    """

    name = "deberta"
    family = "content"
    paper = "arXiv:2006.03654"
    tags = Tags(translation_invariant=True, needs_context=True)

    def __init__(
        self,
        dim: int,
        heads: int,
        span: int = 512,
        buckets: int | None = None,
        *,
        head_dim: int | None = None,
        terms: tuple[str, ...] = ("c2p", "p2c"),
        projections: Literal["layer", "own"] = "layer",
        norm: bool = False,
    ) -> None:
        super().__init__()
        whole("DeBERTa", span=span, **given(buckets=buckets))
        head_dim = head_dim_of("DeBERTa", dim, heads, head_dim)
        if buckets is not None and (buckets % 2 or buckets < 4 or span <= buckets // 2 + 1):
            raise SettingError(
                f"DeBERTa(span={span}, buckets={buckets}): an even number of buckets >= 4 is "
                "needed, and a span greater than buckets / 2 + 1"
            )
        if not terms or len(set(terms)) < len(terms) or set(terms) - {"c2p", "p2c"}:
            raise SettingError(f"DeBERTa(terms={terms!r}): terms are 'c2p', 'p2c' or both")
        one_of("DeBERTa", ("layer", "own"), projections=projections)
        one_of("DeBERTa", (False, True), norm=norm)
        self.dim = self.model_dim = dim
        self.heads, self.head_dim, self.span, self.buckets = heads, head_dim, span, buckets
        self.terms, self.projections, self.norm = tuple(terms), projections, norm
        self.tags = replace(self.tags, needs_context=projections == "layer")
        self.size = span if buckets is None else buckets
        self.weight = nn.Parameter(torch.randn(2 * self.size, dim) * 0.02)
        self.table_norm = nn.LayerNorm(dim, EPSILON) if norm else None
        self.key_projection = self.query_projection = None
        width = heads * head_dim
        if projections == "own" and "c2p" in terms:
            # A bias would add the same to every key of a query, which softmax does not see.
            self.key_projection = nn.Linear(dim, width, bias=False)
        if projections == "own" and "p2c" in terms:
            self.query_projection = nn.Linear(dim, width)

    @classmethod
    def for_model(
        cls, *, model_dim: int, heads: int, head_dim: int, train_length: int, **_: object
    ) -> Encoding:
        # A row that no training distance reaches would stay untrained.
        return cls(model_dim, heads, span=min(512, train_length), head_dim=head_dim)

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(32, heads=4, span=4)
        yield cls(24, heads=3, span=12, buckets=6, norm=True)
        yield cls(10, heads=4, span=5, head_dim=8, projections="own")
        yield cls(16, heads=4, span=3, terms=("p2c",), projections="own")

    def bucket(self, back: Int[Tensor, "n"]) -> Int[Tensor, "n"]:
        """The bucket of each i - j, computed in float32 as checkpoints were."""
        if self.buckets is None:
            return back
        mid = self.buckets // 2
        whole = torch.full((), (self.span - 1) / mid, dtype=torch.float32, device=back.device).log()
        far = (back.abs().clamp(min=mid).float() / mid).log() / whole * (mid - 1)
        return torch.where(back.abs() <= mid, back, back.sign() * (far.ceil().long() + mid))

    def lower(
        self,
        positions: Positions,
        context: Context | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Term, ...]:
        device, far = self.weight.device, self.span
        back = torch.arange(far, -far - 1, -1, device=device)
        row_of = (self.bucket(back) + self.size).clamp(0, 2 * self.size - 1)
        table = self.weight.to(torch.promote_types(self.weight.dtype, dtype))
        if self.table_norm is not None:
            scale, shift = (p.to(table.dtype) for p in self.table_norm.parameters())
            table = F.layer_norm(table, (self.dim,), scale, shift, EPSILON)
        gathered: list[Term] = []
        for term in self.terms:
            with autocast_off(device):
                weight = self._projected(term, table, context)
            side: Literal["q", "k"] = "q" if term == "c2p" else "k"
            gathered.append(GatherTable(weight, far, side, row_of=row_of, saturates=True))
        return (Scale((1 + len(self.terms)) ** -0.5), *gathered)

    def _projected(
        self, term: str, table: Float[Tensor, "rows c"], context: Context | None
    ) -> Float[Tensor, "h rows d"]:
        context = Context() if context is None else context
        linear, project = self.key_projection, context.project_k
        if term == "p2c":
            linear, project = self.query_projection, context.project_q
        if linear is not None:
            rows = linear_in_dtype(table, linear)
            return rows.unflatten(-1, (self.heads, -1)).transpose(0, 1)
        if project is None:
            raise PositionsError(
                f"{self!r} projects its table by the layer's weights: pass "
                "context=posenc.Context(project_q=..., project_k=...), functions that map "
                "(rows, dim) to (heads, rows, head_dim), or construct it with projections='own'"
            )
        return project(table)

    def reference_scores(self, q: Queries, k: Keys, at: Pairs) -> Scores:
        def row_of(back: int) -> int:
            bucket, mid = back, (self.buckets or 0) // 2
            if self.buckets is not None and abs(back) > mid:
                part = math.log(abs(back) / mid) / math.log((self.span - 1) / mid)
                bucket = mid + math.ceil(part * (mid - 1) - 1e-6)
                bucket = bucket if back > 0 else -bucket
            return min(max(bucket + self.size, 0), 2 * self.size - 1)

        def projected(linear: nn.Linear | None, project: Any) -> Tensor:
            if linear is None:
                return project(table)
            return torch.stack(linear(table).chunk(self.heads or 1, dim=-1))

        table, context = self.weight, Context() if at.context is None else at.context
        if self.table_norm is not None:
            centred = table - table.mean(dim=-1, keepdim=True)
            deviation = (centred.square().mean(dim=-1, keepdim=True) + EPSILON).sqrt()
            table = centred / deviation * self.table_norm.weight + self.table_norm.bias
        rows = (-at.distance()[:, 0]).round().long().apply_(row_of)
        total = torch.einsum("bhid,bhjd->bhij", q, k)
        if "c2p" in self.terms:
            keys = projected(self.key_projection, context.project_k)
            total = total + torch.einsum("bhid,hbijd->bhij", q, keys[:, rows])
        if "p2c" in self.terms:
            queries = projected(self.query_projection, context.project_q)
            total = total + torch.einsum("bhjd,hbijd->bhij", k, queries[:, rows])
        return at.scale * (1 + len(self.terms)) ** -0.5 * total
