"""What can be wrong with a bias: its size, sign, side of the scale, slopes and buckets."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from posenc.analysis.diagnosis.computation import Computation, Edit
from posenc.analysis.diagnosis.hypotheses import LOW, Rows
from posenc.encodings.t5 import T5Bias
from posenc.terms import DenseBias, DistanceTable, GridTable, Network, Offset, Slope, Term

BIASES = (DistanceTable, Slope, Network, GridTable, DenseBias, Offset)


def bias(ours: Computation) -> Rows:
    """Everything that can be wrong with a bias and is no setting."""
    if ours.has(*BIASES):
        yield from _sizes(ours)
    for term in ours.terms:
        if isinstance(term, Slope):
            yield from _slopes(ours, term)
        if isinstance(term, (Slope, DistanceTable)):
            changed = _of_heads(ours, lambda table: table.flip(0))
            yield "order of heads", "gives the biases of the heads in reverse order", changed
            changed = _of_heads(ours, lambda table: table[:1].expand_as(table))
            says = "gives the bias of the first head to every head"
            yield "one head's bias for all", says, changed
        if isinstance(term, Offset):
            says = "counts the gate of each key too, ours only those after it"
            yield "gate of the key", says, ours.edited(_one_gate_more, Offset)
    for part in (part for part in ours.parts if isinstance(part, T5Bias)):
        for step, way in ((1, "up"), (-1, "down")):
            says = f"numbers buckets of far distances 1 {way}"
            yield "buckets", says, ours.edited(_bucket_off(part, step), DistanceTable)


def _sizes(ours: Computation) -> Rows:
    inside = any(getattr(term, "inside", False) for term in ours.terms)
    factor, side = (1 / ours.scale, "after") if inside else (ours.scale, "before")
    placed = f"adds the bias {side} the scale of q . k, so that it is {factor:.6g} times ours"
    for cause, says, by in (
        ("scale placement", placed, factor),
        ("scale placement", "multiplies the bias by sqrt(d)", ours.q.shape[-1] ** 0.5),
        ("sign of the bias", "adds the bias with the opposite sign", -1.0),
        ("bias missing", "adds no bias", 0.0),
        ("bias added twice", "adds the bias twice", 2.0),
    ):
        yield cause, says, times_bias(ours, by)
    reach = max(ours.positions.q_len, ours.positions.k_len)
    for low, name in LOW.items():
        says = f"rounds the bias to {name}: the error grows with the bias"
        changed = ours.edited(_rounded_bias(reach, low), DistanceTable, Slope)
        yield "precision of the bias", says, changed


def times_bias(ours: Computation, factor: float) -> Computation:
    """The computation with its biases multiplied; those inside the scale stay there."""

    def edit(term: Any) -> Term:
        names = ("past", "future", "q", "k", "values", "output_weight", "output_bias")
        tables = {name: getattr(term, name, None) for name in names}
        return replace(
            term, **{n: table * factor for n, table in tables.items() if table is not None}
        )

    return ours.edited(edit, *BIASES)


def _rounded_bias(reach: int, low: torch.dtype) -> Edit:
    """The bias of each distance below `reach`, rounded; rows of a table are rounded one by one."""

    def edit(term: DistanceTable | Slope) -> Term:
        if isinstance(term, DistanceTable):
            return replace(term, values=term.values.to(low).to(term.values.dtype))
        distance = torch.arange(-reach, reach + 1, device=term.past.device)
        future = term.past if term.future is None else term.future
        slope = torch.where(distance > 0, future[:, None], term.past[:, None])
        values = (-slope * distance.abs()).to(low).to(slope.dtype)
        return DistanceTable(values, zero=reach, inside=term.inside, saturates=True)

    return edit


def _slopes(ours: Computation, slope: Slope) -> Rows:
    ahead, future = "bias of keys ahead", slope.past if slope.future is None else slope.future
    rewards = "multiplies the slope by k - q, which rewards keys ahead of the query"
    same = "has the same slope for keys ahead of the query as for those behind"
    for cause, says, other in (
        (ahead, rewards, replace(slope, future=-slope.past)),
        (ahead, "gives no bias to keys ahead of the query", replace(slope, future=0 * future)),
        (ahead, same, replace(slope, future=None)),
        ("sign of the bias", "rewards keys behind", Slope(-slope.past, future, slope.inside)),
    ):
        yield cause, says, ours.edited(lambda _, other=other: other, Slope)


def _of_heads(ours: Computation, order: Callable[[Tensor], Tensor]) -> Computation:
    def edit(term: DistanceTable | Slope) -> Term:
        if isinstance(term, DistanceTable):
            return replace(term, values=order(term.values))
        future = None if term.future is None else order(term.future)
        return replace(term, past=order(term.past), future=future)

    return ours.edited(edit, DistanceTable, Slope)


def _one_gate_more(term: Offset) -> Term:
    before = torch.cat((torch.zeros_like(term.k[..., :1]), term.k[..., :-1]), dim=-1)
    return replace(term, k=before)


def _bucket_off(part: T5Bias, step: int) -> Edit:
    def edit(term: DistanceTable) -> Term:
        far, n = part.max_distance, term.values.shape[-1]
        distance = torch.arange(-far, n - far, device=term.values.device)
        size = part.buckets // 2 if part.bidirectional else part.buckets
        bucket = part.bucket(distance)
        own = bucket % size
        moved = torch.where(own >= size // 2, (own + step).clamp(max=size - 1), own)
        return replace(term, values=part.weight[bucket - own + moved].T)

    return edit
