"""The equation itself, some queries at a time: any terms, and memory that grows with the keys."""

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from posenc.backends.call import Call
from posenc.equation import mask_rules, output_of, scores_of, weights_of
from posenc.lowering import Lowered
from posenc.terms import DenseBias, Offset, Rotate, Scale, Term, Window, Zones

SCORES = 2**20


def attend(call: Call) -> Tensor:
    """The output; a gradient computes the scores of each part again instead of keeping them."""
    b, h, q_len = call.q.shape[:3]
    positions = call.lowered.positions
    if positions.queries.order is not None or q_len <= call.k.shape[2]:
        positions = positions.ordered()
    else:
        if any(isinstance(r, Window) for r in mask_rules(call.lowered.terms)):
            # Raises, as it does for all queries at once: of some of them it would count wrong.
            positions.order_distance()
        # No rule reads this order, which only lets the queries be cut.
        order = torch.arange(q_len, device=positions.device)
        positions = replace(positions, queries=replace(positions.queries, order=order))
    lowered = replace(call.lowered, positions=positions)
    rows = max(1, SCORES // (b * h * call.k.shape[2]))
    parts = []
    for start in range(0, q_len, rows):
        part = slice(start, start + rows)
        given = replace(call, q=call.q[:, :, part], lowered=_lowered_of(lowered, part))
        if torch.is_grad_enabled():
            parts.append(checkpoint(_attend, given, use_reentrant=False))
        else:
            parts.append(_attend(given))
    return torch.cat(parts, dim=2)


def _attend(call: Call) -> Tensor:
    p = weights_of(scores_of(call.q, call.k, call.lowered, call.scale))
    if call.dropout:
        p = F.dropout(p, call.dropout)
    return output_of(p, call.v, call.lowered).to(call.v.dtype)


def _lowered_of(lowered: Lowered, part: slice) -> Lowered:
    terms = tuple(_term_of(term, part) for term in lowered.terms)
    positions = replace(lowered.positions, queries=lowered.positions.queries[part])
    return replace(lowered, terms=terms, positions=positions, q_turn=None)


def _term_of(term: Term, part: slice) -> Term:
    if isinstance(term, Rotate):
        return _turn_of(term, part)
    if isinstance(term, Zones):
        return replace(term, near=_turn_of(term.near, part), far=_turn_of(term.far, part))
    if isinstance(term, Offset):
        return replace(term, q=term.q[..., part])
    if isinstance(term, Scale) and isinstance(term.factor, Tensor):
        return replace(term, factor=term.factor[..., part])
    if isinstance(term, DenseBias):
        return replace(term, values=term.values[..., part, :])
    return term


def _turn_of(term: Rotate, part: slice) -> Rotate:
    scale = term.q_log_scale
    return replace(
        term,
        q_angle=term.q_angle[..., part, :],
        q_log_scale=None if scale is None else scale[..., part, :],
    )
