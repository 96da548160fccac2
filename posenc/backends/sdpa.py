"""torch's scaled_dot_product_attention: q and k turned first, all else one additive mask.

The mask is (1|b, h, tq, tk), so memory is quadratic as soon as a term adds to the scores.
"""

from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from posenc.backends.call import Call
from posenc.backends.turn import operands
from posenc.equation import (
    arithmetic,
    content_scale,
    distance_bias,
    gathered,
    group,
    mask_rules,
)
from posenc.positions import Positions
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

_ADDED = (DistanceTable, Slope, GatherTable, Offset)
# Queries of a step of decoding, and numbers in a mask that costs less than tiles do.
_FEW, _LARGE = 16, 2**20


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


def passed_over(call: Call) -> str | None:
    """Why `auto` leaves a call to others: its mask would cost more than tiles of the scores."""
    # A graph leaves lengths open, and its compiler fuses what makes the mask.
    if torch.compiler.is_compiling() or call.q.shape[2] <= _FEW:
        return None
    size = _mask_size(call)
    return f"its mask would hold {size} numbers" if size > _LARGE else None


def attend(call: Call) -> Tensor:
    terms, positions = call.lowered.terms, call.lowered.positions
    q, k, v, scale = operands(call)
    bias = _bias(call)
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
    shape, shared = q.shape, q.shape[1] // k.shape[1]
    # As more queries of a key head, so that no key is repeated; a mask of one head would be. Of a
    # graph only for one query, for the lengths of others would be bound.
    one = shape[2] == 1
    folds = one or (not torch.compiler.is_compiling() and (mask is None or mask.shape[1] > 1))
    if folds and shared > 1 and not is_causal:
        rows = (k.shape[1], shared * shape[2])
        q = q.reshape(shape[0], *rows, shape[3])
        if mask is not None:
            mask = mask.expand(-1, shape[1], shape[2], -1)
            mask = mask.reshape(mask.shape[0], *rows, mask.shape[-1])
    else:
        k, v = group(k, shape[1]), group(v, shape[1])
    if mask is not None and mask.is_floating_point() and q.is_cuda:
        # cuDNN reads a mask of another dtype as if it had that of q (pytorch #191612).
        mask = mask.to(q.dtype)
    with _without_cudnn(q, k, v, mask):
        out = F.scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=mask,
            dropout_p=call.dropout,
            is_causal=is_causal,
            scale=scale,
        )
    out = out.view(*shape[:3], -1) if out.shape[1] < shape[1] else out
    if torch.compiler.is_exporting():
        # SDPA's strides differ from one tracing pass to the next; a copy keeps later views legal.
        out = out.clone(memory_format=torch.contiguous_format)
    return out.to(call.v.dtype)


def _without_cudnn(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None
) -> AbstractContextManager[object]:
    """Keeps cuDNN from training with a mask at lengths that give NaN (pytorch #196678)."""
    trains = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v))
    if not q.is_cuda or mask is None or not trains or torch.compiler.is_compiling():
        return nullcontext()
    if q.shape[2] % 128 != 64 and k.shape[2] % 128 != 64:
        return nullcontext()
    return sdpa_kernel(
        [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    )


def _mask_size(call: Call) -> int:
    """Numbers in the mask or, for dropout on a CPU, which keeps them all, in the weights."""
    terms, positions = call.lowered.terms, call.lowered.positions
    b, h, q_len = call.q.shape[:3]
    every = b * h * q_len * call.k.shape[2]
    if any(isinstance(term, _ADDED) for term in terms):
        return every
    if call.dropout and call.q.device.type == "cpu":
        return every
    square = positions.in_order and q_len == call.k.shape[2]
    hides = bool(mask_rules(terms)) or positions.keys.document is not None
    if hides or (positions.causal and not square):
        return every // h
    return 0


def _bias(call: Call) -> Tensor | None:
    positions, bias = call.lowered.positions, None
    dtype = arithmetic(call.q, call.k)
    scale = content_scale(call.lowered.terms, call.scale, dtype)
    for term in call.lowered.terms:
        if isinstance(term, (DistanceTable, Slope)):
            part = _table(term, positions, dtype)
        elif isinstance(term, GatherTable):
            # Of keys that nobody reads it takes the shape, and a long cache is not copied.
            k = call.k.to(dtype) if term.side == "k" else call.k
            part = gathered(term, call.q.to(dtype), k, positions) * scale
        elif isinstance(term, Offset):
            part = (term.q[..., :, None] + term.k[..., None, :]).to(dtype)
        elif isinstance(term, DenseBias):
            part = term.values.to(dtype)
        else:
            continue
        if isinstance(term, (DistanceTable, Slope)) and term.inside:
            part = part * scale
        bias = part if bias is None else bias + part
    return bias


def _table(term: DistanceTable | Slope, positions: Positions, dtype: torch.dtype) -> Tensor:
    """What a table or a slope adds, (1, 1|h, tq, tk): with four dimensions, or SDPA is not fused.

    With plain positions it is a sliding view of one vector over the distances, whose gradient is a
    sum over diagonals; a gather would scatter it through an index matrix. A compiled graph fuses
    the gather, and a view of dynamic size would fix its length.
    """
    plain = positions.in_order and positions.unit_step
    if not plain or torch.compiler.is_compiling():
        return distance_bias(term, positions, dtype)
    q_len, k_len = positions.q_len, positions.k_len
    line = _line(term, 1 - k_len, q_len, dtype)
    return line[None, :, None] if q_len == 1 else line.unfold(-1, k_len, 1).flip(-2)[None]


def _line(term: DistanceTable | Slope, first: int, stop: int, dtype: torch.dtype) -> Tensor:
    """What is added at the distances first .. stop - 1, (1|h, n)."""
    if isinstance(term, Slope):
        future = term.past if term.future is None else term.future
        distance = torch.arange(first, stop, device=term.past.device, dtype=dtype)
        past, future = (slope.to(dtype)[:, None] for slope in (term.past, future))
        if stop <= 1:
            return past * distance
        return torch.where(distance <= 0, past * distance, -future * distance)
    values = term.values.to(dtype)
    # Runs of the first and of the last value are filled, which is faster than to look each one up.
    low, high = first + term.zero, stop + term.zero
    left, right = (min(max(n, 0), stop - first) for n in (-low, high - values.shape[-1]))
    inner = values[:, max(low, 0) : max(high, 0)]
    parts = values[:, :1].expand(-1, left), inner, values[:, -1:].expand(-1, right)
    return torch.cat(parts, dim=-1)
