"""Hypotheses about biases: their size, sign, side of the scale, slopes and buckets."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from posenc.analysis.diagnosis.computation import Computation, Edit
from posenc.analysis.diagnosis.hypotheses import Hypothesis, otherwise
from posenc.analysis.diagnosis.turning_causes import LOW
from posenc.encodings.alibi import ALiBi
from posenc.encodings.t5 import T5Bias
from posenc.terms import DenseBias, DistanceTable, Offset, Slope, Term

BIASES = (DistanceTable, Slope, DenseBias, Offset)


def biasing(at: Computation, terms: tuple[Term, ...]) -> Iterator[Hypothesis]:
    """Everything that can be wrong with a bias and needs no number to be fitted."""
    if any(isinstance(term, BIASES) for term in terms):
        yield from _sizes(at, terms)
    for term in terms:
        if isinstance(term, Slope):
            yield from _slope(at, term)
        if isinstance(term, (Slope, DistanceTable)):
            says = "gives the biases of the heads in reverse order"
            yield Hypothesis("order of heads", says, _of_heads(at, lambda table: table.flip(0)))
            says = "gives the bias of the first head to every head"
            first = _of_heads(at, lambda table: table[:1].expand_as(table))
            yield Hypothesis("one head's bias for all", says, first)
        if isinstance(term, Offset):
            says = "counts the gate of each key too, ours only those after it"
            yield Hypothesis("gate of the key", says, at.edited(_one_gate_more))
    for part in at.parts:
        if isinstance(part, ALiBi) and not part.learned:
            for name, slopes in _slopes(part.heads or 1, part.slope_values()).items():
                says = f"has other slopes: {name}"
                yield from otherwise(at, part, "slopes", says, slopes=slopes)
        if isinstance(part, T5Bias):
            yield from _buckets(at, part)


def _sizes(at: Computation, terms: tuple[Term, ...]) -> Iterator[Hypothesis]:
    assert at.q is not None
    inside = any(getattr(term, "inside", False) for term in terms)
    factor, side = (1 / at.scale, "after") if inside else (at.scale, "before")
    says = f"adds the bias {side} the scale of q . k, so that it is {factor:.6g} times ours"
    for cause, what, by in (
        ("scale placement", says, factor),
        ("scale placement", "multiplies the bias by sqrt(d)", at.q.shape[-1] ** 0.5),
        ("sign of the bias", "adds the bias with the opposite sign", -1.0),
        ("bias missing", "adds no bias", 0.0),
        ("bias added twice", "adds the bias twice", 2.0),
    ):
        yield Hypothesis(cause, what, times_bias(at, by))
    reach = max(at.positions.q_len, at.positions.k_len)
    for low, name in LOW.items():
        says = f"rounds the bias to {name}: the error grows with the bias"
        yield Hypothesis("precision of the bias", says, at.edited(_rounded_bias(reach, low)))


def times_bias(at: Computation, factor: float) -> Computation:
    """The computation with its biases multiplied; those inside the scale stay there."""

    def edit(term: Term) -> Term:
        names = ("past", "future", "q", "k", "values") if isinstance(term, BIASES) else ()
        tables = {name: getattr(term, name, None) for name in names}
        made: dict[str, Any] = {n: t * factor for n, t in tables.items() if t is not None}
        return replace(term, **made)

    return at.edited(edit)


def _rounded_bias(reach: int, low: torch.dtype) -> Edit:
    """The bias of each distance below `reach`, rounded; rows of a table are rounded one by one."""

    def edit(term: Term) -> Term:
        if isinstance(term, DistanceTable):
            return replace(term, values=term.values.to(low).to(term.values.dtype))
        if not isinstance(term, Slope):
            return term
        distance = torch.arange(-reach, reach + 1, device=term.past.device)
        future = term.past if term.future is None else term.future
        slope = torch.where(distance > 0, future[:, None], term.past[:, None])
        values = (-slope * distance.abs()).to(low).to(slope.dtype)
        return DistanceTable(values, zero=reach, inside=term.inside, saturates=True)

    return edit


def _slope(at: Computation, slope: Slope) -> Iterator[Hypothesis]:
    ahead, future = "bias of keys ahead", slope.past if slope.future is None else slope.future
    rewards = "multiplies the slope by k - q, which rewards keys ahead of the query"
    same = "has the same slope for keys ahead of the query as for those behind"
    for cause, says, made in (
        (ahead, rewards, replace(slope, future=-slope.past)),
        (ahead, "gives no bias to keys ahead of the query", replace(slope, future=0 * future)),
        (ahead, same, replace(slope, future=None)),
        ("sign of the bias", "rewards keys behind", Slope(-slope.past, future, slope.inside)),
    ):
        changed = at.edited(lambda term, made=made: made if isinstance(term, Slope) else term)
        yield Hypothesis(cause, says, changed)


def _of_heads(at: Computation, order: Callable[[Tensor], Tensor]) -> Computation:
    def edit(term: Term) -> Term:
        if isinstance(term, DistanceTable):
            return replace(term, values=order(term.values))
        if not isinstance(term, Slope):
            return term
        future = None if term.future is None else order(term.future)
        return replace(term, past=order(term.past), future=future)

    return at.edited(edit)


def _one_gate_more(term: Term) -> Term:
    if not isinstance(term, Offset):
        return term
    before = torch.cat((torch.zeros_like(term.k[..., :1]), term.k[..., :-1]), dim=-1)
    return replace(term, k=before)


def _slopes(heads: int, own: list[float]) -> dict[str, list[float]]:
    below = max(2**n for n in range(32) if 2**n <= heads)
    count = range(1, heads + 1)
    return {
        "2**(-8h/n) for all n heads, also where n is no power of two": [
            2.0 ** (-8 * h / heads) for h in count
        ],
        "those of the authors' code": ALiBi(heads).slope_values(),
        "2**(-8h/n) counted from h = 0": [2.0 ** (-8 * h / heads) for h in range(heads)],
        "evenly spaced powers from 2**-1 to 2**-8": [
            2.0 ** -(1 + 7 * h / max(heads - 1, 1)) for h in range(heads)
        ],
        "those of a power of two, in the order of their size": sorted(own, reverse=True),
        f"2**(-8h/{below}), counted on beyond {below} heads": [
            2.0 ** (-8 * h / below) for h in count
        ],
        f"2**(-8h/{2 * below}), the first {heads} of them": [
            2.0 ** (-4 * h / below) for h in count
        ],
    }


def _buckets(at: Computation, part: T5Bias) -> Iterator[Hypothesis]:
    says = f"has buckets for {'one direction' if part.bidirectional else 'both directions'}"
    settings = {"bidirectional": not part.bidirectional}
    yield from otherwise(at, part, "buckets", f"{says}, ours the opposite", **settings)
    for far in sorted({*(2**n for n in range(3, 13)), part.max_distance + 1}):
        says = f"has the last bucket begin at {far}, ours at {part.max_distance}"
        yield from otherwise(at, part, "buckets", says, max_distance=far)
    for step, way in ((1, "up"), (-1, "down")):
        says = f"numbers buckets of far distances 1 {way}"
        yield Hypothesis("buckets", says, at.edited(_bucket_off(part, step)))


def _bucket_off(part: T5Bias, step: int) -> Edit:
    def edit(term: Term) -> Term:
        if not isinstance(term, DistanceTable):
            return term
        far, n = part.max_distance, term.values.shape[-1]
        distance = torch.arange(-far, n - far, device=term.values.device)
        size = part.buckets // 2 if part.bidirectional else part.buckets
        bucket = part.bucket(distance)
        own = bucket % size
        moved = torch.where(own >= size // 2, (own + step).clamp(max=size - 1), own)
        return replace(term, values=part.weight[bucket - own + moved].T)

    return edit
