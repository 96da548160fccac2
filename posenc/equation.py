"""The equation: what every term means, eager and plain. Every fast path is compared with this.

Letters: b batch, h query heads, g key heads (h is a multiple of g), tq queries, tk keys,
d head dimension. Arithmetic in at least float32.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from posenc.errors import ShapeError
from posenc.lowering import Lowered
from posenc.mask_rules import MaskRule
from posenc.polar import in_pairs
from posenc.positions import Positions
from posenc.reflections import at_once, by_head
from posenc.rotation import cos_sin, per_query_head, rotate_both, rotate_pairs
from posenc.terms import (
    ChunkZones,
    CountTable,
    DenseBias,
    DistanceTable,
    GatherTable,
    GridTable,
    Householder,
    Mask,
    Network,
    Offset,
    Polar,
    Rotate,
    RotateValues,
    Scale,
    SinkLogit,
    Slope,
    Term,
    ValueTable,
    Zones,
)
from posenc.torch_modes import arithmetic
from posenc.transform import transformed


def scores_of(
    q: Float[Tensor, "b h tq d"], k: Float[Tensor, "b g tk d"], lowered: Lowered, scale: float
) -> Float[Tensor, "b h tq tk"]:
    """Scores of every pair: s where visible, -inf elsewhere."""
    terms, positions = lowered.terms, lowered.positions
    dtype = arithmetic(q, k)
    q, k = transformed(q, k, terms, dtype)
    content = rotated_content(q, k, terms, positions, dtype)
    outside = torch.zeros((), dtype=dtype, device=q.device)
    for term in terms:
        if isinstance(term, GatherTable) and term.own is not None:
            told = gathered(term, term.own.to(dtype), k, positions)
            outside = outside + told * content_scale(terms, 1.0, dtype)
        elif isinstance(term, GatherTable):
            content = content + gathered(term, q, k, positions)
        elif isinstance(term, (DistanceTable, Slope)) and term.inside:
            content = content + distance_bias(term, positions, dtype)
        elif isinstance(term, (DistanceTable, Slope)):
            outside = outside + distance_bias(term, positions, dtype)
        elif isinstance(term, Network):
            outside = outside + network_bias(term, positions, dtype)
        elif isinstance(term, GridTable):
            outside = outside + grid_bias(term, dtype)
        elif isinstance(term, Offset):
            outside = outside + (term.q[..., :, None] + term.k[..., None, :]).to(dtype)
        elif isinstance(term, DenseBias):
            outside = outside + term.values.to(dtype)
    s = content * content_scale(terms, scale, dtype)
    visible = positions.visible(mask_rules(terms))
    counts = [counted(term, q, s, visible) for term in terms if isinstance(term, CountTable)]
    s = s + outside + sum(counts)
    return s if visible is None else s.masked_fill(~visible, -torch.inf)


def sink_of(terms: Sequence[Term]) -> Float[Tensor, "#h"] | None:
    """The logit of all SinkLogits together: the log of the sum of their exp."""
    total = None
    for term in terms:
        if isinstance(term, SinkLogit):
            total = term.values if total is None else torch.logaddexp(total, term.values)
    return total


def weights_of(
    scores: Float[Tensor, "b h tq tk"], sink: Float[Tensor, "#h"] | None = None
) -> Float[Tensor, "b h tq tk"]:
    """softmax over keys, and a sink; all zeros, in the gradient too, in a row that sees nothing."""
    if sink is not None:
        return weights_of(_with_sink(scores, sink))[..., :-1]
    empty = (scores == -torch.inf).all(dim=-1, keepdim=True)
    return scores.masked_fill(empty, 0.0).softmax(dim=-1).masked_fill(empty, 0.0)


def lse_of(
    scores: Float[Tensor, "b h tq tk"], sink: Float[Tensor, "#h"] | None = None
) -> Float[Tensor, "b h tq"]:
    """log of the sum of exp(score) over keys, and of exp(sink); -inf, with no gradient, where there
    is neither.
    """
    if sink is not None:
        return lse_of(_with_sink(scores, sink))
    empty = (scores == -torch.inf).all(dim=-1)
    return scores.masked_fill(empty[..., None], 0.0).logsumexp(-1).masked_fill(empty, -torch.inf)


def _with_sink(
    scores: Float[Tensor, "b h tq tk"], sink: Float[Tensor, "#h"]
) -> Float[Tensor, "b h tq _"]:
    """The scores, and a sink in the last column."""
    column = sink.to(scores.dtype)[:, None, None].expand(*scores.shape[:3], 1)
    return torch.cat((scores, column), dim=-1)


def output_of(
    p: Float[Tensor, "b h tq tk"], v: Float[Tensor, "b g tk d"], lowered: Lowered
) -> Float[Tensor, "b h tq d"]:
    """unturn(p turn(v)) + ValueTables(p), in the dtype of p."""
    v = v.to(p.dtype)
    turns = [term.rotation for term in lowered.terms if isinstance(term, RotateValues)]
    for term in turns:
        if term.k_angle is not None:
            cos, sin = cos_sin(term.k_angle, 1.0, p.dtype)
            v = rotate_pairs(v, cos, sin, term.layout, term.start)
    out = p @ group(v, p.shape[1])
    for term in turns:
        cos, sin = cos_sin(term.q_angle, 1.0, p.dtype)
        out = rotate_pairs(out, cos, -sin, term.layout, term.start)
    for term in lowered.terms:
        if isinstance(term, ValueTable):
            rows = rows_of(term, lowered.positions).expand(p.shape)
            buckets = p.new_zeros(*p.shape[:-1], term.weight.shape[-2])
            out = out + buckets.scatter_add(-1, rows, p) @ term.weight.to(p.dtype)
    return out


def group(k: Float[Tensor, "b g tk d"], heads: int) -> Float[Tensor, "b h tk d"]:
    """Key heads repeated so that query head i reads key head i // (h / g)."""
    if heads % k.shape[1]:
        raise ShapeError(
            f"{heads} query heads and {k.shape[1]} key heads: "
            "grouped-query attention needs a multiple"
        )
    return k if k.shape[1] == heads else k.repeat_interleave(heads // k.shape[1], dim=1)


def content_scale(terms: tuple[Term, ...], scale: float, dtype: torch.dtype) -> Tensor | float:
    """scale times every Scale term: a number, or (1|b, 1|h, tq, 1)."""
    total: Tensor | float = scale
    for term in terms:
        if isinstance(term, Scale):
            factor = term.factor
            total = total * (factor.to(dtype)[..., None] if isinstance(factor, Tensor) else factor)
    return total


def mask_rules(terms: tuple[Term, ...]) -> list[MaskRule]:
    return [term.rule for term in terms if isinstance(term, Mask)]


def distance_bias(term: DistanceTable | Slope, positions: Positions, dtype: torch.dtype) -> Tensor:
    """What a table or a slope adds to each pair: (1|b, 1|h, tq, tk)."""
    if isinstance(term, DistanceTable):
        # Its gradient sums many pairs in one entry, which the dtype of a parameter may not hold.
        return term.values.to(dtype)[:, rows_of(term, positions)[:, 0]].transpose(0, 1)
    distance = positions.distance().to(dtype)
    past, future = term.past, term.past if term.future is None else term.future
    slopes = [slope.to(dtype)[:, None, None] for slope in (past, future)]
    return torch.where(distance <= 0, slopes[0] * distance, -slopes[1] * distance)


def network_bias(
    term: Network, positions: Positions, dtype: torch.dtype
) -> Float[Tensor, "#b #h tq tk"]:
    """What a network adds to each pair."""
    distance = positions.distance()[:, 0].abs()
    # The clamp reaches only pairs that are not visible.
    by_distance = term.by_distance[distance.clamp(max=term.by_distance.shape[0] - 1)]
    x = (by_distance * term.by_query[..., None]).to(dtype)[..., None]
    hidden = (x * term.hidden_weight.to(dtype) + term.hidden_bias.to(dtype)).relu()
    out = F.linear(hidden, term.output_weight.to(dtype)) + term.output_bias.to(dtype)
    return out.movedim(-1, 1)


def grid_bias(term: GridTable, dtype: torch.dtype) -> Float[Tensor, "#b #h tq tk"]:
    """What a table of rows and columns adds to each pair."""
    step = term.k_index[:, None, :] - term.q_index[:, :, None] + term.zero
    # The clamp reaches only pairs that are not visible.
    return term.values.to(dtype)[:, step.clamp(0, term.values.shape[-1] - 1)].transpose(0, 1)


def gathered(
    term: GatherTable,
    q: Float[Tensor, "#b h tq e"],
    k: Float[Tensor, "#b g tk d"],
    positions: Positions,
) -> Float[Tensor, "#b h tq tk"]:
    """(x + bias) . weight[row of the distance], for every pair and query head."""
    heads = q.shape[1]
    x = q if term.side == "q" else group(k, heads)
    if term.bias is not None:
        x = x + term.bias.to(x.dtype)[:, None, :]
    products = x @ term.weight.to(x.dtype).mT
    rows = rows_of(term, positions)
    if term.side == "k":
        rows = rows.mT
    rows = rows.expand(max(q.shape[0], rows.shape[0]), heads, -1, -1)
    products = products.expand(rows.shape[0], -1, -1, -1)
    picked = products.gather(-1, rows)
    return picked if term.side == "q" else picked.mT


def rows_of(
    term: DistanceTable | GatherTable | ValueTable, positions: Positions
) -> Int[Tensor, "#b 1 tq tk"]:
    """Which row of its table each pair reads."""
    distance = positions.distance()
    # Where a table does not saturate, the clamp reaches only pairs that are not visible.
    if isinstance(term, DistanceTable):
        return (distance + term.zero).clamp(0, term.values.shape[-1] - 1)
    if term.row_of is None:
        return (distance + term.zero).clamp(0, term.weight.shape[-2] - 1)
    return term.row_of[(distance + term.zero).clamp(0, len(term.row_of) - 1)]


def rotated_content(
    q: Tensor, k: Tensor, terms: tuple[Term, ...], positions: Positions, dtype: torch.dtype
) -> Tensor:
    """rotate(q) . rotate(k), or q . k where no term rotates."""
    for term in terms:
        if isinstance(term, Rotate):
            return _rotated_product(q, k, term, dtype)
        if isinstance(term, Zones):
            near = -positions.order_distance() < term.width
            near_content = _rotated_product(q, k, term.near, dtype)
            return torch.where(near, near_content, _rotated_product(q, k, term.far, dtype))
        if isinstance(term, ChunkZones):
            return _by_chunks(q, k, term, positions, dtype)
        if isinstance(term, Householder):
            return _reflected(q, k, term, dtype)
        if isinstance(term, Polar):
            return _rotated_product(*in_pairs(q, k, term), term.rotation, dtype)
    return q @ group(k, q.shape[1]).mT


def _reflected(q: Tensor, k: Tensor, term: Householder, dtype: torch.dtype) -> Tensor:
    """q . H .. H k: each query is carried back from token to token, and meets every key there."""
    k, w, beta = by_head(term, k, dtype)
    if torch.compiler.is_compiling():
        return at_once(q, k, w, beta)
    k, w, beta = (group(x, q.shape[1]) for x in (k, w, beta[..., None]))
    own = torch.arange(k.shape[2] - q.shape[2], k.shape[2], device=q.device)[:, None]
    met: list[Tensor] = []
    for j in range(k.shape[2] - 1, -1, -1):
        met.append(q @ k[:, :, j, :, None])
        at = w[:, :, j : j + 1]
        q = torch.where(own >= j, q - beta[:, :, j : j + 1] * (q @ at.mT) * at, q)
    return torch.cat(met[::-1], dim=-1)


def _by_chunks(
    q: Tensor, k: Tensor, term: ChunkZones, positions: Positions, dtype: torch.dtype
) -> Tensor:
    ahead, own = chunks_ahead(positions, term.width), term.same
    same, turned = rotate_both(q, per_query_head(k, own, q.shape[1]), own, dtype)
    one, more = (rotate_both(q, turned, turn, dtype)[0] for turn in (term.next, term.beyond))
    same, one, more = (x @ group(turned, q.shape[1]).mT for x in (same, one, more))
    return torch.where(ahead < 1, same, torch.where(ahead < 2, one, more)).to(dtype)


def chunks_ahead(positions: Positions, width: int) -> Int[Tensor, "#b 1 tq tk"]:
    """How many chunks each query is ahead of each key; coordinates may be float64."""
    q, k = (
        torch.div(x, width, rounding_mode="floor").long().view(-1, 1, x.shape[-1])
        for x in positions.one_axis("ChunkZones")
    )
    return q[..., :, None] - k[..., None, :]


def _rotated_product(q: Tensor, k: Tensor, term: Rotate, dtype: torch.dtype) -> Tensor:
    rotated_q, rotated_k = rotate_both(q, per_query_head(k, term, q.shape[1]), term, dtype)
    return (rotated_q @ group(rotated_k, q.shape[1]).mT).to(dtype)


def counted(term: CountTable, q: Tensor, s: Tensor, visible: Tensor | None) -> Tensor:
    """q . weight at the count of open gates, where s is the scaled content."""
    masked = s if visible is None else s.masked_fill(~visible, -torch.inf)
    counts = masked.sigmoid().flip(-1).cumsum(-1).flip(-1)
    counts = counts.clamp(max=term.weight.shape[-2] - 1)
    below = counts.floor()
    fraction = counts - below
    products = q @ term.weight.to(q.dtype).mT
    # What is not a number stays so in the fraction, but is no row of a table.
    low = products.gather(-1, below.nan_to_num(0.0).long())
    high = products.gather(-1, counts.ceil().nan_to_num(0.0).long())
    return low + fraction * (high - low)
