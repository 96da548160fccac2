"""torch's scaled_dot_product_attention: q and k turned first, all else one additive mask.

The mask is (1|b, h, tq, tk), so memory is quadratic as soon as a term adds to the scores.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from posenc.backends.call import Call
from posenc.equation import (
    arithmetic,
    check_distances,
    check_heads,
    content_scale,
    distance_bias,
    gathered,
    group,
    keys_to_turn,
    mask_rules,
)
from posenc.positions import Positions
from posenc.rotation import turn
from posenc.terms import (
    CountTable,
    DenseBias,
    DistanceTable,
    GatherTable,
    Offset,
    Rotate,
    Slope,
    ValueTable,
    Zones,
)


def refusal(call: Call) -> str | None:
    for term in call.lowered.terms:
        if isinstance(term, ValueTable):
            return "ValueTable needs the attention weights, which SDPA does not give"
        if isinstance(term, CountTable):
            return "CountTable needs the scores, which SDPA does not give"
        if isinstance(term, Zones):
            return "Zones turn queries and keys twice"
        if isinstance(term, Rotate) and not (term.q_log_scale is term.k_log_scale is None):
            return "factors that grow with position need float64 scores"
    return None


def attend(call: Call) -> Tensor:
    terms, positions = call.lowered.terms, call.lowered.positions
    check_heads(terms, call.q.shape[1])
    check_distances(terms, positions)
    dtype = arithmetic(call.q, call.k)
    factor = content_scale(terms, call.scale, dtype)
    bias = _bias(call, factor, dtype)
    rules, visible, is_causal = mask_rules(terms), None, False
    plain = bias is None and not rules and positions.in_order
    # SDPA's own causal mask is no tensor, but aligns the first query with the first key.
    if plain and positions.causal and positions.q_len == positions.k_len:
        is_causal = True
    else:
        visible = positions.visible(rules)
    mask = visible
    if bias is not None:
        mask = bias if visible is None else bias.masked_fill(~visible, -torch.inf)
    q, k = _turned(call, dtype)
    if isinstance(factor, Tensor):
        q, factor = q * factor, 1.0
    common = torch.promote_types(torch.promote_types(call.q.dtype, call.k.dtype), call.v.dtype)
    v = call.v.to(common)
    k, v = group(k, q.shape[1]), group(v, q.shape[1])
    out = F.scaled_dot_product_attention(
        q.to(common),
        k.to(common),
        v,
        attn_mask=mask,
        dropout_p=call.dropout,
        is_causal=is_causal,
        scale=factor,
    )
    if torch.compiler.is_exporting():
        # SDPA's strides differ from one tracing pass to the next; a copy keeps later views legal.
        out = out.clone(memory_format=torch.contiguous_format)
    return out.to(call.v.dtype)


def _turned(call: Call, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    for term in call.lowered.terms:
        if isinstance(term, Rotate):
            q_turn, k_turn = call.lowered.turns(term, dtype)
            q = turn(call.q, *q_turn, term.layout, term.start)
            if k_turn is None:
                return q, call.k
            k = keys_to_turn(call.k, term, call.q.shape[1])
            return q, turn(k, *k_turn, term.layout, term.start)
    return call.q, call.k


def _bias(call: Call, factor: Tensor | float, dtype: torch.dtype) -> Tensor | None:
    positions, bias = call.lowered.positions, None
    for term in call.lowered.terms:
        if isinstance(term, DistanceTable):
            part = _table(term, positions).to(dtype)
        elif isinstance(term, Slope):
            part = distance_bias(term, positions, dtype)
        elif isinstance(term, GatherTable):
            part = gathered(term, call.q.to(dtype), call.k.to(dtype), positions) * factor
        elif isinstance(term, Offset):
            part = (term.q[..., :, None] + term.k[..., None, :]).to(dtype)
        elif isinstance(term, DenseBias):
            part = term.values.to(dtype)
        else:
            continue
        if isinstance(term, (DistanceTable, Slope)) and term.inside:
            part = part * factor
        bias = part if bias is None else bias + part
    return bias


def _table(term: DistanceTable, positions: Positions) -> Tensor:
    """The bias of a table, (1|h, tq, tk).

    With plain positions it is a sliding view of one vector, whose gradient is a sum over
    diagonals; a gather would scatter it through an index matrix. A compiled graph fuses the
    gather, and a view of dynamic size would fix its length.
    """
    plain = positions.in_order and positions.unit_step
    if not plain or torch.compiler.is_compiling():
        return distance_bias(term, positions, term.values.dtype)
    q_len, k_len = positions.q_len, positions.k_len
    distance = torch.arange(1 - k_len, q_len, device=term.values.device)
    index = (distance + term.zero).clamp(0, term.values.shape[-1] - 1)
    return term.values[:, index].unfold(-1, k_len, 1).flip(-2)
