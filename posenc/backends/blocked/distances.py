"""From terms to what the tiles take, where distances run along the diagonals of the scores."""

import torch
from torch import Tensor

from posenc.backends.blocked.inputs import Inputs, Rows
from posenc.backends.call import Call
from posenc.backends.diagonals import aligned
from posenc.backends.turn import turned_by
from posenc.equation import content_scale, distance_bias, group, mask_rules
from posenc.positions import Positions, Tokens
from posenc.terms import (
    DistanceTable,
    GatherTable,
    Mask,
    Offset,
    Prefix,
    Rotate,
    Scale,
    Sink,
    Slope,
    ValueTable,
    Window,
)

_BY_DISTANCE = (DistanceTable, Slope, GatherTable, ValueTable)


def refusal(call: Call) -> str | None:
    """Why the scores of this call do not depend on distances along diagonals alone, or None."""
    terms = call.lowered.terms
    scaled = any(isinstance(t, Scale) and isinstance(t.factor, Tensor) for t in terms)
    for term in terms:
        known = (*_BY_DISTANCE, Rotate, Offset, Scale, Mask)
        if not isinstance(term, known):
            return f"{type(term).__name__} is not made of distances"
        if isinstance(term, Rotate) and not (term.q_log_scale is term.k_log_scale is None):
            return "factors that grow with position need float64 scores"
        inside = isinstance(term, (DistanceTable, Slope)) and term.inside
        beside = isinstance(term, GatherTable) and (term.side == "k" or term.bias is not None)
        if scaled and (inside or beside):
            return f"{type(term).__name__} inside a scale that differs from query to query"
    positions = call.lowered.positions
    if any(isinstance(term, _BY_DISTANCE) for term in terms) and not positions.unit_step:
        return "positions do not count in steps of one"
    return None if aligned(positions) else "queries are not the last of the keys, in order"


def inputs_of(call: Call) -> Inputs:
    """The inputs of the tiled operation; gradients flow through what is made here."""
    terms, positions = call.lowered.terms, call.lowered.positions
    dtype = torch.float64 if torch.float64 in (call.q.dtype, call.k.dtype) else torch.float32
    scale = content_scale(terms, call.scale, dtype)
    q, k, turned = _turned(call, dtype)
    read_q = call.q if turned else None
    # Keys that each query head turns by its own angles are one per query head.
    v, read_k = (group(x, k.shape[1]) for x in (call.v, call.k))
    read_k = read_k if turned else None
    if isinstance(scale, Tensor):
        q = q * scale
        read_q = None if read_q is None else read_q * scale
        scale = 1.0
    q_rows, k_rows, v_rows, biases, key_biases = [], [], [], [], []
    for term in terms:
        if isinstance(term, (DistanceTable, Slope)):
            bias = _along(term, positions, dtype)
            biases.append(bias * scale if term.inside else bias)
        elif isinstance(term, Offset):
            # Of a query it adds the same to every key, which softmax does not see.
            key_biases.append(term.k)
        elif isinstance(term, ValueTable):
            v_rows.append(_expanded(term))
        elif isinstance(term, GatherTable):
            rows = _expanded(term)
            if term.bias is not None:
                read = (rows.weight.to(dtype) @ term.bias.to(dtype)[..., None])[..., 0]
                by_row = DistanceTable(read * scale, rows.zero, saturates=True)
                biases.append(_along(by_row, positions, dtype))
            weight = rows.weight
            if term.saturates:
                # Counted from the vector of the far past, which then needs no product.
                weight = weight - weight[:, :1]
            if term.side == "k" and term.saturates:
                keys = group(call.k.to(dtype), call.q.shape[1])
                far = (keys @ rows.weight[:, :1].to(dtype).mT)[..., 0]
                key_biases.append(far * scale)
            if weight.shape[1] > 1 or not term.saturates:
                (q_rows if term.side == "q" else k_rows).append(Rows(weight, rows.zero))
    rules = mask_rules(terms)
    widths = [rule.width for rule in rules if isinstance(rule, Window)]
    sinks = [rule.count for rule in rules if isinstance(rule, Sink)]
    prefixes = [rule.count for rule in rules if isinstance(rule, Prefix)]
    order, documents = positions.orders()[1], positions.keys.document is not None
    ordered = positions.keys.order is not None and len(rules) > 0
    return Inputs(
        q=q,
        k=k,
        v=v,
        read_q=read_q if q_rows else None,
        read_k=read_k if k_rows else None,
        table=sum(biases[1:], biases[0]) if biases else None,
        key_bias=sum(key_biases[1:], key_biases[0]) if key_biases else None,
        q_rows=tuple(q_rows),
        k_rows=tuple(k_rows),
        v_rows=tuple(v_rows),
        k_order=_per_row(order) if ordered else None,
        q_document=_per_row(positions.queries.document) if documents else None,
        k_document=_per_row(positions.keys.document) if documents else None,
        k_valid=positions.keys.valid,
        scale=scale,
        causal=positions.causal,
        window=min(widths) if widths else None,
        sinks=max(sinks) if sinks else 0,
        prefix=max(prefixes) if prefixes else 0,
        dropout=call.dropout,
        seed=torch.randint(2**62, (), device=q.device) if call.dropout else None,
    )


def _per_row(x: Tensor | None) -> Tensor | None:
    return x if x is None or x.ndim == 2 else x[None]


def _turned(call: Call, dtype: torch.dtype) -> tuple[Tensor, Tensor, bool]:
    """q and k, where a term turns them in the dtype of the arithmetic, and whether one does."""
    if not any(isinstance(term, Rotate) for term in call.lowered.terms):
        return call.q, call.k, False
    k = call.k if call.lowered.turned else call.k.to(dtype)
    return *turned_by(call.lowered, call.q.to(dtype), k, dtype), True


def _along(term: DistanceTable | Slope, positions: Positions, dtype: torch.dtype) -> Tensor:
    """The bias of every distance, (1|h, tq + tk - 1)."""
    q_len, k_len = positions.q_len, positions.k_len
    k = torch.arange(1 - k_len, q_len, device=positions.device)
    one = Positions(Tokens(torch.zeros_like(k[:1])), Tokens(k))
    return distance_bias(term, one, dtype)[0, :, 0]


def _expanded(term: GatherTable | ValueTable) -> Rows:
    """A vector for each distance, not for each row that distances share."""
    weight = term.weight if term.row_of is None else term.weight[:, term.row_of]
    return Rows(weight, term.zero)
