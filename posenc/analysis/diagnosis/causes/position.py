"""What can be wrong with where tokens are, and with how positions join the embeddings."""

from dataclasses import replace
from itertools import permutations

import torch
from torch import Tensor

from posenc.analysis.diagnosis.computation import Computation
from posenc.analysis.diagnosis.hypotheses import LOW, Rows, orders_of
from posenc.encoding import Encoding
from posenc.positions import Positions


def position(ours: Computation) -> Rows:
    """Other positions that are common mistakes."""
    positions, start = ours.positions, "start of positions"
    q, k = positions.queries.position, positions.keys.position
    missing = positions.k_len - positions.q_len
    through = Positions.build(positions.q_len, positions.k_len, device=positions.device)
    counted = ours.at(through.queries.position, through.keys.position, extent=positions.k_len)
    if positions.keys.valid is not None:
        yield "padding counted", "counts padding as tokens, ours does not", counted
    if positions.keys.document is not None:
        yield start, "counts on through packed documents, ours anew in each", counted
    if missing > 0:
        says = f"counts queries from the first key, ours from key {missing}: the offset is ignored"
        yield start, says, moved(ours, q=-missing)
        new = torch.arange(positions.k_len, device=positions.device) >= missing
        new = (-missing * new).view(-1, *[1] * (k.ndim == 3))
        says = "counts the new tokens, queries and keys, from the first one: no offset is added"
        yield start, says, moved(ours, q=-missing, k=new)
        says = "has the new keys in front of the old ones"
        yield "order of keys", says, replace(ours, k=ours.k.roll(-missing, -2))
    for step in (1, -1, 2):
        for steps in ((step, step), (step, 0), (0, step))[: 1 if ours.kind == "embedded" else 3]:
            yield offset(ours, *steps)
    if ours.kind != "embedded" and ours.rotate is None:
        says = "counts q - k where ours counts k - q"
        yield "sign of the distance", says, ours.at(-q, -k, extent=positions.bound)
    far = k.amax() if k.numel() else 0
    changed = ours.at(far - q, far - k, extent=positions.bound)
    yield "positions reversed", "counts positions from the last token", changed
    yield from _lengths(ours)
    yield from _axes(ours)


def moved(ours: Computation, q: int | Tensor = 0, k: int | Tensor = 0) -> Computation:
    """The computation with queries and keys this many positions farther on."""
    positions = ours.positions
    most = max(int(torch.as_tensor(step).abs().max()) for step in (q, k))
    extent = None if positions.bound is None else positions.bound + most
    queries = {"position": positions.queries.position + q, "length": None}
    keys = {"position": positions.keys.position + k, "length": None}
    return ours.placed(queries, keys, unit_step=False, extent=extent)


def offset(ours: Computation, q: int, k: int) -> tuple[str, str, Computation]:
    """That queries and keys are counted from another position."""
    k_positions = ours.positions.keys.position
    first = k_positions.flatten()[0].item() if k_positions.numel() else 0
    if q and k and q != k:
        says = f"counts queries {q:+d} and keys {k:+d} from ours"
    else:
        who, step = "positions" if q == k else "queries" if q else "keys", q or k
        says = (
            f"counts {who} {step:+d} from ours: the first token is at {first + step:g}, "
            f"not {first:g}"
        )
    return "offset", says, moved(ours, q, k)


def _lengths(ours: Computation) -> Rows:
    if not any(isinstance(part, Encoding) and part.tags.length_dependent for part in ours.parts):
        return
    cause, positions = "length of the input", ours.positions
    says = "reads the length of the whole buffer, with padding and other documents"
    changed = ours.placed({"length": None}, {"length": None}, extent=positions.k_len)
    yield cause, says, changed
    says = "reads the length of the longest row or document for all of them"
    yield cause, says, changed.placed(extent=int(positions.lengths()[1].amax()))


def _axes(ours: Computation) -> Rows:
    """The order of the coordinates that positions have, or a grid counts through."""
    q, k = ours.positions.queries.position, ours.positions.keys.position
    grids = [grid for part in ours.parts if (grid := getattr(part, "grid", None)) is not None]
    if grids and k.ndim < 3:
        # The first axis never wraps.
        sizes = (1_000_000, *grids[0][1:])
        q, k = (torch.stack(torch.unravel_index(side, sizes), -1) for side in (q, k))
        q, k = (side.view(-1, *side.shape[-2:]) for side in (q, k))
    for order in permutations(range(k.shape[-1])) if k.ndim == 3 else ():
        if list(order) != sorted(order):
            says = f"reads the axes of positions in the order {list(order)}"
            yield "order of axes", says, ours.at(q[..., order], k[..., order])


def embedding(ours: Computation) -> Rows:
    """What goes wrong where positions join the embeddings."""
    if ours.kind != "embedded":
        return
    yield "position missing", "adds no position", replace(ours, parts=())
    width = ours.q.shape[-1]
    for factor, name in ((width**0.5, "sqrt(c)"), (width**-0.5, "1/sqrt(c)")):
        says = f"multiplies the embeddings by {name} before position joins them"
        yield "scale", says, replace(ours, q=ours.q * factor)
    for order, index in orders_of(width).items():
        index = index.to(ours.q.device)
        (other,) = replace(ours, q=ours.q[..., index.argsort()]).results()
        if other.shape == ours.q.shape:
            says = f"has the dimensions of a position in another order: {order}"
            yield "order of dimensions", says, (other[..., index],)
    for low, name in LOW.items():
        q = ours.positions.queries.position
        q = q.to(low).to(q.dtype)
        says = f"rounds positions to {name}: neighbours far out become equal"
        yield "precision of positions", says, ours.at(q, q)
        (alone,) = replace(ours, q=torch.zeros_like(ours.q)).results()
        if alone.shape == ours.q.shape:
            says = f"rounds what it adds to {name}"
            yield "precision of tables", says, (ours.q + alone.to(low).to(alone.dtype),)
