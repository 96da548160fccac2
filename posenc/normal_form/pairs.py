"""What a normal form adds to the scores of pairs, and which of them are visible, as tensors.

Letters: b batch, h query heads, g key heads, r queries and c keys of a span, d head dimension.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from posenc.mask_rules import Chunk, MaskRule, Prefix, Sink, Window
from posenc.normal_form.form import NormalForm, Slopes, Table
from posenc.positions import Positions
from posenc.terms import Network


@dataclass(frozen=True)
class Span:
    """Queries start .. stop against keys left .. right."""

    start: int
    stop: int
    left: int
    right: int

    @property
    def rows(self) -> int:
        return self.stop - self.start

    @property
    def columns(self) -> int:
        return self.right - self.left

    def least(self, shift: int) -> int:
        """The distance of the last query to the first key, of `shift` more keys than queries."""
        return self.left - (self.stop - 1) - shift

    @property
    def diagonals(self) -> int:
        """How many distances there are, where they run along diagonals."""
        return self.rows + self.columns - 1


def whole(positions: Positions) -> Span:
    """All queries against all keys."""
    return Span(0, positions.q_len, 0, positions.k_len)


def positions_of(positions: Positions, span: Span) -> Positions:
    """The positions of a span, orders told."""
    if span == whole(positions):
        return positions
    queries, keys = positions.queries, positions.keys
    if queries.order is None and positions.q_len > positions.k_len:
        # No mask reads the order of these queries, and all keys are met.
        order = torch.arange(positions.q_len, device=positions.device)
        queries = replace(queries, order=order)[span.start : span.stop]
        return replace(positions, queries=queries)
    ordered = positions.ordered()
    queries, keys = ordered.queries[span.start : span.stop], ordered.keys[span.left : span.right]
    return replace(ordered, queries=queries, keys=keys)


def visible(form: NormalForm, span: Span | None = None) -> Bool[Tensor, "#b 1 #r c"] | None:
    """Who sees whom; None where everyone sees everyone."""
    seen = form.visibility
    rules: list[MaskRule] = [] if seen.window is None else [Window(seen.window)]
    rules += [Sink(seen.sinks)] if seen.sinks else []
    rules += [Prefix(seen.prefix)] if seen.prefix else []
    rules += [] if seen.chunk is None else [Chunk(seen.chunk)]
    positions = form.positions if span is None else positions_of(form.positions, span)
    return positions.visible(rules)


def by_distance(
    table: Table | None,
    slopes: Slopes | None,
    distance: Tensor,
    dtype: torch.dtype,
) -> Tensor | None:
    """What is added at each distance (1|b, 1, r, c): (1|b, 1|h, r, c)."""
    parts = []
    if table is not None:
        index = (distance[:, 0] + table.zero).clamp(0, table.values.shape[-1] - 1)
        # Its gradient sums many pairs in one entry, which the dtype of a parameter may not hold.
        parts.append(table.values.to(dtype)[:, index].transpose(0, 1))
    if slopes is not None:
        past, future = (slope.to(dtype)[:, None, None] for slope in (slopes.past, slopes.future))
        far = distance.to(dtype)
        parts.append(torch.where(far <= 0, past * far, -future * far))
    return _sum(parts)


def through_network(
    network: Network,
    distance: Int[Tensor, "#b r c"],
    by_query: Float[Tensor, "#b r"],
    dtype: torch.dtype,
) -> Float[Tensor, "#b #h r c"]:
    """What a network adds at these distances to these queries."""
    index = distance.abs().clamp(max=network.by_distance.shape[0] - 1)
    x = (network.by_distance[index] * by_query[..., None]).to(dtype)
    hidden = x[..., None] * network.hidden_weight.to(dtype) + network.hidden_bias.to(dtype)
    # One row of weights may stand beside a bias for each head.
    out = F.linear(hidden.relu(), network.output_weight.to(dtype)) + network.output_bias.to(dtype)
    return out.movedim(-1, 1)


def by_grid(
    values: Float[Tensor, "#h n"],
    q_index: Int[Tensor, "#b r"],
    k_index: Int[Tensor, "#b c"],
    zero: int,
) -> Float[Tensor, "#b #h r c"]:
    """What a table of rows and columns adds to these queries and keys."""
    step = (k_index + zero)[:, None] - q_index[..., None]
    picked = values.index_select(1, step.clamp(0, values.shape[1] - 1).flatten())
    return picked.unflatten(1, step.shape).transpose(0, 1)


def line(
    table: Table | None, slopes: Slopes | None, first: int, stop: int, dtype: torch.dtype
) -> Float[Tensor, "#h n"] | None:
    """What is added at the distances first .. stop - 1."""
    parts = []
    if table is not None:
        values = table.values.to(dtype)
        # Runs of the first and of the last value are filled, which is faster than a look-up each.
        low, high = first + table.zero, stop + table.zero
        left, right = (min(max(n, 0), stop - first) for n in (-low, high - values.shape[-1]))
        inner = values[:, max(low, 0) : max(high, 0)]
        ends = values[:, :1].expand(-1, left), values[:, -1:].expand(-1, right)
        parts.append(torch.cat((ends[0], inner, ends[1]), dim=-1))
    if slopes is not None:
        device = slopes.past.device
        distance = torch.arange(first, stop, device=device).to(dtype)
        past, future = (slope.to(dtype)[:, None] for slope in (slopes.past, slopes.future))
        bias = past * distance
        parts.append(bias if stop <= 1 else torch.where(distance <= 0, bias, -future * distance))
    return _sum(parts)


def along_diagonals(line: Float[Tensor, "#h n"], columns: int) -> Float[Tensor, "#h r c"]:
    """A value per distance at every pair: the last query and the first key have the first one.

    A sliding view, whose gradient is a sum over diagonals; a gather would scatter it through an
    index matrix.
    """
    if line.shape[-1] == columns:
        return line[:, None]
    return line.unfold(-1, columns, 1).flip(-2)


def vectors_along_diagonals(
    x: Float[Tensor, "b h r d"], vectors: Table, least: int, columns: int
) -> Float[Tensor, "b h r c"]:
    """x . row of the distance, where distances run along the diagonals from `least` on.

    One matrix product with the vectors of all distances, read along its own diagonals.
    """
    rows, n = x.shape[2], x.shape[2] + columns - 1
    products = (x @ rows_between(vectors, least, n).to(x.dtype).mT).contiguous()
    shape = (*products.shape[:2], rows, columns)
    strides = (*products.stride()[:2], n - 1, 1)
    return products.as_strided(shape, strides, products.storage_offset() + rows - 1)


def key_vectors_along_diagonals(
    k: Float[Tensor, "b h c d"], vectors: Table, least: int, rows: int
) -> Float[Tensor, "b h r c"]:
    """k . row of the distance, the same for what keys read.

    Keys come in runs of as many as there are queries, each against the distances that it can have.
    """
    count = -(-k.shape[2] // rows)
    runs = F.pad(k, (0, 0, 0, count * rows - k.shape[2])).unflatten(2, (count, rows))
    distances = rows_between(vectors, least, (count + 1) * rows - 1).to(k.dtype)
    # By falling distance, so that the diagonals rise with the query.
    windows = distances.unfold(1, 2 * rows - 1, rows).flip(-1)
    products = (runs @ windows).contiguous()
    shape = (*k.shape[:2], rows, count, rows)
    steps = (1, products.stride(2), 2 * rows - 2)
    pairs = products.as_strided(
        shape, (*products.stride()[:2], *steps), products.storage_offset() + rows - 1
    )
    return pairs.flatten(-2)[..., : k.shape[2]]


def rows_between(vectors: Table, first: int, count: int) -> Float[Tensor, "#h n d"]:
    """The vectors of the distances first .. first + count - 1."""
    index = torch.arange(first, first + count, device=vectors.values.device) + vectors.zero
    return vectors.values.index_select(1, index.clamp(0, vectors.values.shape[1] - 1))


def vectors_by_distance(
    x: Float[Tensor, "#b h r d"], vectors: Table, distance: Tensor
) -> Float[Tensor, "#b h r c"]:
    """x . row of the distance (1|b, 1, r, c)."""
    products = x @ vectors.values.to(x.dtype).mT
    index = (distance + vectors.zero).clamp(0, vectors.values.shape[1] - 1)
    # Vectors of a query's own may be one row for a batch whose distances differ.
    products = products.expand(max(x.shape[0], index.shape[0]), -1, -1, -1)
    return products.gather(-1, index.expand(*products.shape[:2], -1, -1))


def _sum(parts: list[Tensor]) -> Tensor | None:
    total = None
    for part in parts:
        total = part if total is None else total + part
    return total
