"""One chunk: its scores, their softmax, and what it makes of the values.

Letters: b batch, h query heads, g key heads, r queries and c keys of the chunk.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from posenc.backends.blocked.products import product, summed
from posenc.backends.blocked.reflections import reflected_scores
from posenc.equation import chunks_ahead, counted, lse_of, weights_of
from posenc.normal_form.form import NormalForm, Slopes, Table
from posenc.normal_form.pairs import (
    Span,
    along_diagonals,
    by_distance,
    by_grid,
    key_vectors_along_diagonals,
    positions_of,
    rows_between,
    through_network,
    vectors_along_diagonals,
    vectors_by_distance,
    visible,
)
from posenc.terms import ChunkZones, CountTable, Householder, Network, Zones


@dataclass(frozen=True, eq=False)
class Chunk:
    """Where a chunk is, and how its scores are made.

    heads     its query heads
    diagonal  distances run along the diagonals
    hides     who sees whom is told by a mask, not by the line of biases
    empty     some query may see nothing
    seed      of dropout, which is drawn alike forward and backward
    """

    form: NormalForm
    span: Span
    heads: slice
    diagonal: bool
    hides: bool
    empty: bool
    dropout: float
    seed: int

    @property
    def least(self) -> int:
        """The least distance, where distances run along the diagonals."""
        positions = self.form.positions
        return self.span.least(positions.k_len - positions.q_len)

    def distance(self) -> Tensor:
        return positions_of(self.form.positions, self.span).distance()


def output(chunk: Chunk, x: dict[str, Tensor]) -> tuple[Float[Tensor, "b h r d_v"]]:
    """softmax(scores) v, and what vectors by distance add."""
    return (_output(chunk, x, scores(chunk, x)),)


def with_lse(
    chunk: Chunk, x: dict[str, Tensor]
) -> tuple[Float[Tensor, "b h r d_v"], Float[Tensor, "b h r"]]:
    """The same, and the log of the sum of exp(score) of each query."""
    s = scores(chunk, x)
    return _output(chunk, x, s), lse_of(s, x.get("sink"))


def _output(chunk: Chunk, x: dict[str, Tensor], s: Tensor) -> Tensor:
    sink = x.get("sink")
    p = weights_of(s, sink) if chunk.empty or sink is not None else s.softmax(-1)
    if chunk.dropout:
        generator = torch.Generator(p.device).manual_seed(chunk.seed)
        kept = torch.rand(p.shape, generator=generator, device=p.device) >= chunk.dropout
        p = p * kept / (1 - chunk.dropout)
    v = x["v"]
    out = summed(p, v)
    if "on_value" not in x:
        return out
    return out + _values(chunk, p, _of(chunk.form.on_value, x["on_value"]))


def scores(chunk: Chunk, x: dict[str, Tensor]) -> Float[Tensor, "b h r c"]:
    """Scores of the chunk; -inf where not visible."""
    form = chunk.form
    dtype = x["v"].dtype
    if isinstance(form.rotation, ChunkZones):
        positions = positions_of(form.positions, chunk.span)
        s = _by_chunks(x, chunks_ahead(positions, form.rotation.width))
    elif isinstance(form.rotation, Householder):
        s = reflected_scores(form, chunk.span, x)
    else:
        s = product(x["q"], x["k"])
    if isinstance(form.rotation, Zones):
        order = positions_of(form.positions, chunk.span).order_distance()
        s = torch.where(-order < form.rotation.width, s, product(x["far_q"], x["far_k"]))
    s = s.to(dtype)
    if "on_query" in x:
        s = s + _vectors(chunk, x["read_q"], _of(form.on_query, x["on_query"]))
    if "on_key" in x:
        s = s + _key_vectors(chunk, x["read_k"], _of(form.on_key, x["on_key"]), s.shape[1])
    s = _plus_distances(chunk, s, x, "inside_")
    if "scale" in x:
        s = s * x["scale"]
    seen = visible(form, chunk.span) if chunk.hides else None
    content = s
    if "own" in x and form.own is not None:
        told = _vectors(chunk, x["read_own"], _of(form.own.table, x["own"]))
        s = s + (told * x["scale"] if "scale" in x else told)
    s = _plus_distances(chunk, s, x, "")
    if "q_offset" in x:
        s = s + _offsets(x["q_offset"], x["k_offset"], dtype)
    if "network_by_query" in x:
        network = Network(**{name: x[f"network_{name}"] for name in vars(form.network)})
        distance = chunk.distance()[:, 0]
        s = s + through_network(network, distance, network.by_query, dtype)
    if form.grid is not None:
        values = x["grid_values"].to(dtype)
        s = s + by_grid(values, x["grid_q_index"], x["grid_k_index"], form.grid.zero)
    if "dense" in x:
        s = s + x["dense"].to(dtype)
    if "counts" in x:
        s = s + counted(CountTable(x["counts"]), x["gate_q"], _hidden(chunk, content), None)
    return s if seen is None else s.masked_fill(~seen, -torch.inf)


def _by_chunks(x: dict[str, Tensor], ahead: Tensor) -> Tensor:
    """Products of each zone, of those keys alone that some query has in it."""
    k, zones = x["k"], ahead.clamp(0, 2)
    s = x["q"].new_zeros(*x["q"].shape[:3], k.shape[2])
    for zone, name in enumerate(("q", "next_q", "beyond_q")):
        inside = zones == zone
        columns = inside.flatten(0, 2).any(0).nonzero()
        if len(columns):
            some = slice(int(columns[0]), int(columns[-1]) + 1)
            met = product(x[name], k[:, :, some])
            s[..., some] = torch.where(inside[..., some], met, s[..., some])
    return s


def _hidden(chunk: Chunk, content: Tensor) -> Tensor:
    """The content with -inf where not visible, as gates are counted."""
    seen = visible(chunk.form, chunk.span)
    return content if seen is None else content.masked_fill(~seen, -torch.inf)


def _plus_distances(chunk: Chunk, s: Tensor, x: dict[str, Tensor], side: str) -> Tensor:
    if f"{side}line" in x:
        return s + along_diagonals(x[f"{side}line"], chunk.span.columns)
    form = chunk.form
    table, slopes = None, None
    own = form.inside_table if side else form.table
    if own is not None:
        table = Table(x[f"{side}table"], own.zero)
    if f"{side}past" in x:
        slopes = Slopes(x[f"{side}past"], x[f"{side}future"])
    if table is None and slopes is None:
        return s
    distance = x["k_place"].mT - x["q_place"] if "q_place" in x else chunk.distance()
    bias = by_distance(table, slopes, distance, s.dtype)
    return s if bias is None else s + bias


def _of(vectors: Table | None, rows: Tensor) -> Table:
    """The same vectors, with rows that a gradient is asked of."""
    assert vectors is not None
    return Table(rows, vectors.zero)


def _vectors(chunk: Chunk, x: Tensor, vectors: Table) -> Tensor:
    if chunk.diagonal:
        return vectors_along_diagonals(x, vectors, chunk.least, chunk.span.columns)
    return vectors_by_distance(x, vectors, chunk.distance())


def _key_vectors(chunk: Chunk, k: Tensor, vectors: Table, heads: int) -> Tensor:
    k = k.repeat_interleave(heads // k.shape[1], dim=1) if k.shape[1] < heads else k
    if chunk.diagonal:
        return key_vectors_along_diagonals(k, vectors, chunk.least, chunk.span.rows)
    return vectors_by_distance(k, vectors, chunk.distance().mT).mT


def _offsets(q: Tensor, k: Tensor, dtype: torch.dtype) -> Tensor:
    """Their sums: both may be large and cancel, so what rounding loses of each is added too."""
    high = [x.detach().to(dtype) for x in (q, k)]
    low = [(x - most.to(x.dtype)).to(dtype) for x, most in zip((q, k), high, strict=True)]
    # Of infinity nothing is lost.
    low = [torch.where(rest.isfinite(), rest, 0) for rest in low]
    return (high[0] + high[1].mT) + (low[0] + low[1].mT)


def _values(chunk: Chunk, p: Tensor, vectors: Table) -> Tensor:
    if chunk.diagonal:
        weights = _as_diagonals(p)
        return weights @ rows_between(vectors, chunk.least, chunk.span.diagonals)
    index = (chunk.distance() + vectors.zero).clamp(0, vectors.values.shape[1] - 1)
    buckets = p.new_zeros(*p.shape[:-1], vectors.values.shape[1])
    return buckets.scatter_add(-1, index.expand(p.shape), p) @ vectors.values


def _as_diagonals(p: Tensor) -> Tensor:
    """(..., r, c) as (..., r, r + c - 1), one column for each distance."""
    rows, columns = p.shape[-2:]
    if rows == 1:
        return p
    flat = F.pad(p, (0, rows - 2)).flatten(-2)
    return F.pad(flat, (rows - 1, 1)).unflatten(-1, (rows, rows + columns - 1))
