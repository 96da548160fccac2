"""Hypotheses about where tokens are, and about settings and parameters of any encoding."""

import copy
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, permutations
from typing import Literal, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from posenc.analysis.diagnosis.computation import Computation
from posenc.analysis.diagnosis.hypotheses import (
    Hypothesis,
    exchanging,
    orders_of,
    otherwise,
)
from posenc.analysis.diagnosis.turning_causes import LOW
from posenc.encoding import Encoding
from posenc.positions import Positions
from posenc.terms import Zones


def placing(at: Computation) -> Iterator[Hypothesis]:
    """Other positions that are common mistakes."""
    positions, start = at.positions, "start of positions"
    q, k = positions.queries.position, positions.keys.position
    missing = positions.k_len - positions.q_len
    through = Positions.build(positions.q_len, positions.k_len, device=positions.device)
    counted = _elsewhere(at, through.queries.position, through.keys.position, positions.k_len)
    if positions.keys.valid is not None:
        yield Hypothesis("padding counted", "counts padding as tokens, ours does not", counted)
    if positions.keys.document is not None:
        says = "counts on through packed documents, ours anew in each"
        yield Hypothesis(start, says, counted)
    if missing > 0:
        says = f"counts queries from the first key, ours from key {missing}: the offset is ignored"
        yield Hypothesis(start, says, moved(at, q=-missing))
        new = torch.arange(positions.k_len, device=positions.device) >= missing
        new = (-missing * new).view(-1, *[1] * (k.ndim == 3))
        says = "counts the new tokens, queries and keys, from the first one: no offset is added"
        yield Hypothesis(start, says, moved(at, q=-missing, k=new))
        if at.k is not None:
            says = "has the new keys in front of the old ones"
            yield Hypothesis("order of keys", says, replace(at, k=at.k.roll(-missing, -2)))
    for step in (1, -1, 2):
        yield offset(at, step, step)
        if at.kind != "embedded":
            yield offset(at, step, 0)
            yield offset(at, 0, step)
    if at.kind != "embedded" and at.rotate() is None:
        says = "counts q - k where ours counts k - q"
        changed = _elsewhere(at, -q, -k, positions.bound)
        yield Hypothesis("sign of the distance", says, changed)
    far = k.amax() if k.numel() else 0
    changed = _elsewhere(at, far - q, far - k, positions.bound)
    yield Hypothesis("positions reversed", "counts positions from the last token", changed)
    if at.kind in ("scores", "output") and any(isinstance(t, Zones) for t in at.lowered().terms):
        says = "turns tokens far away by the angles of those nearby: it has one zone"
        changed = at.edited(lambda t: replace(t, far=t.near) if isinstance(t, Zones) else t)
        yield Hypothesis("far zone missing", says, changed)
    yield from _lengths(at)
    yield from _axes(at)


def _lengths(at: Computation) -> Iterator[Hypothesis]:
    if not any(isinstance(part, Encoding) and part.tags.length_dependent for part in at.parts):
        return
    cause, positions = "length of the input", at.positions
    says = "reads the length of the whole buffer, with padding and other documents"
    changed = at.placed({"length": None}, {"length": None}, extent=positions.k_len)
    yield Hypothesis(cause, says, changed)
    says = "reads the length of the longest row or document for all of them"
    longest = int(positions.lengths()[1].amax())
    yield Hypothesis(cause, says, changed.placed(extent=longest))


def _axes(at: Computation) -> Iterator[Hypothesis]:
    """The order of the coordinates that positions have, or a grid counts through."""
    positions = at.positions
    q, k = positions.queries.position, positions.keys.position
    grids = [grid for part in at.parts if (grid := getattr(part, "grid", None)) is not None]
    if grids and k.ndim < 3:
        # The first axis never wraps.
        sizes = (1_000_000, *grids[0][1:])
        q, k = (torch.stack(torch.unravel_index(side, sizes), -1) for side in (q, k))
        q, k = (side.view(-1, *side.shape[-2:]) for side in (q, k))
    for order in permutations(range(k.shape[-1])) if k.ndim == 3 else ():
        if list(order) != sorted(order):
            says = f"reads the axes of positions in the order {list(order)}"
            changed = _elsewhere(at, q[..., order], k[..., order], positions.extent)
            yield Hypothesis("order of axes", says, changed)


def _elsewhere(at: Computation, q: Tensor, k: Tensor, extent: int | None) -> Computation:
    return at.placed({"position": q}, {"position": k}, unit_step=False, extent=extent)


def moved(at: Computation, q: int | Tensor = 0, k: int | Tensor = 0) -> Computation:
    """The computation with queries and keys this many positions farther on."""
    positions = at.positions
    most = max(int(torch.as_tensor(step).abs().max()) for step in (q, k))
    extent = None if positions.bound is None else positions.bound + most
    queries = {"position": positions.queries.position + q, "length": None}
    keys = {"position": positions.keys.position + k, "length": None}
    return at.placed(queries, keys, unit_step=False, extent=extent)


def offset(at: Computation, q: int, k: int) -> Hypothesis:
    """That queries and keys are counted from another position."""
    k_positions = at.positions.keys.position
    first = k_positions.flatten()[0].item() if k_positions.numel() else 0
    if q and k and q != k:
        says = f"counts queries {q:+d} and keys {k:+d} from ours"
    else:
        who, step = "positions" if q == k else "queries" if q else "keys", q or k
        says = (
            f"counts {who} {step:+d} from ours: the first token is at {first + step:g}, "
            f"not {first:g}"
        )
    return Hypothesis("offset", says, moved(at, q, k))


def setting(at: Computation) -> Iterator[Hypothesis]:
    """Settings with few values, those that count something, and parameters of one shape."""
    for part in at.parts:
        if not isinstance(part, Encoding):
            continue
        hints = get_type_hints(type(part).__init__)
        for name, own in part.settings().items():
            others: tuple[object, ...] = ()
            if isinstance(own, bool):
                others = (not own,)
            elif isinstance(own, int):
                others = (own + 1, own - 1)
            elif get_origin(hints.get(name)) is Literal:
                others = get_args(hints[name])
            cause = name if isinstance(own, str) else f"setting {name}"
            for other in others:
                says = f"has {name}={other!r}, ours {name}={own!r}"
                yield from otherwise(at, part, cause, says, **{name: other})
        for one, two in combinations(dict(part.named_parameters()), 2):
            made = copy.deepcopy(part)
            first, second = made.get_parameter(one), made.get_parameter(two)
            if first.shape == second.shape:
                first.data, second.data = second.data, first.data
                says = f"has the values of {one} in {two}, and the other way round"
                yield Hypothesis("parameters exchanged", says, exchanging(at, part, made))
    if at.context is not None and at.context.project_q is not None:
        q, k = at.context.project_q, at.context.project_k
        says = "projects tables for queries by the keys' weights, and the other way round"
        changed = replace(at, context=replace(at.context, project_q=k, project_k=q))
        yield Hypothesis("projections exchanged", says, changed)


def embedding(at: Computation) -> Iterator[Hypothesis]:
    """What goes wrong where positions join the embeddings."""
    if at.x is None:
        return
    yield Hypothesis("position missing", "adds no position", replace(at, parts=()))
    width = at.x.shape[-1]
    for factor, name in ((width**0.5, "sqrt(c)"), (width**-0.5, "1/sqrt(c)")):
        says = f"multiplies the embeddings by {name} before position joins them"
        yield Hypothesis("scale", says, replace(at, x=at.x * factor))
    for order, index in orders_of(width).items():
        index = index.to(at.x.device)
        (found,) = replace(at, x=at.x[..., index.argsort()]).results()
        if found.shape == at.x.shape:
            says = f"has the dimensions of a position in another order: {order}"
            yield Hypothesis("order of dimensions", says, found=(found[..., index],))
    for low, name in LOW.items():
        q = at.positions.queries.position
        q = q.to(low).to(q.dtype)
        says = f"rounds positions to {name}: neighbours far out become equal"
        yield Hypothesis("precision of positions", says, _elsewhere(at, q, q, at.positions.extent))
        (alone,) = replace(at, x=torch.zeros_like(at.x)).results()
        if alone.shape == at.x.shape:
            says = f"rounds what it adds to {name}"
            found = at.x + alone.to(low).to(alone.dtype)
            yield Hypothesis("precision of tables", says, found=(found,))
