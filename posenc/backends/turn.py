"""Queries and keys as a rotation leaves them: what every fused backend begins with."""

import torch
from torch import Tensor

from posenc.backends.call import Call
from posenc.equation import (
    arithmetic,
    check_distances,
    check_heads,
    content_scale,
    group,
    keys_to_turn,
)
from posenc.lowering import Lowered
from posenc.native.turning import turned
from posenc.terms import Rotate


def operands(call: Call, half: torch.dtype = torch.float16) -> tuple[Tensor, Tensor, Tensor, float]:
    """q and k, turned, and v with as many heads as k, in one dtype; the scale of q . k.

    half  what stands for float16, where a backend has no such arithmetic
    """
    check_heads(call.lowered.terms, call.q.shape[1])
    check_distances(call.lowered.terms, call.lowered.positions)
    dtype = arithmetic(call.q, call.k, call.v)
    common = torch.promote_types(torch.promote_types(call.q.dtype, call.k.dtype), call.v.dtype)
    common = half if common == torch.float16 else common
    if any(isinstance(term, Rotate) and term.q_angle.requires_grad for term in call.lowered.terms):
        # The gradient of a frequency is a sum over all positions: errors of rounding add up.
        common = dtype
    scale = content_scale(call.lowered.terms, call.scale, dtype)
    # Rounded once: a scale that differs between queries multiplies what is not rounded yet.
    q = call.q.to(dtype if isinstance(scale, Tensor) else common)
    q, k = turned_by(call.lowered, q, call.k.to(common), dtype)
    if isinstance(scale, Tensor):
        q, scale = (q * scale).to(common), 1.0
    return q, k, group(call.v.to(common), k.shape[1]), scale


def turned_by(lowered: Lowered, q: Tensor, k: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """q and k in their own dtypes, turned with arithmetic in `dtype` where a term turns them.

    Keys that come turned out of a cache stay; heads that turn alike keys by angles of their own
    get keys of their own.
    """
    for term in lowered.terms:
        if isinstance(term, Rotate):
            q_turn, k_turn = lowered.turns(term, dtype)
            if k_turn is None:
                return turned((q,), q_turn[:1], q_turn[1:], term.layout, term.start)[0], k
            cos, sin = zip(q_turn, k_turn, strict=True)
            k = keys_to_turn(k, term, q.shape[1])
            q, k = turned((q, k), cos, sin, term.layout, term.start)
    return q, k
