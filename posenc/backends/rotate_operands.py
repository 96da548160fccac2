"""Queries and keys as a rotation leaves them: what every fused backend begins with."""

import torch
from torch import Tensor

from posenc.backends.call import Call
from posenc.dispatch_rotation import rotated
from posenc.equation import arithmetic, group
from posenc.rotation import CosSin, per_query_head
from posenc.terms import Rotate


def operands(call: Call, half: torch.dtype = torch.float16) -> tuple[Tensor, Tensor, Tensor, float]:
    """q and k, rotated, and v with as many heads as k, in one dtype; the scale of q . k.

    half  what stands for float16, where a backend has no such arithmetic
    """
    form = call.form
    dtype = arithmetic(call.q, call.k, call.v)
    common = torch.promote_types(torch.promote_types(call.q.dtype, call.k.dtype), call.v.dtype)
    common = half if common == torch.float16 else common
    waves = form.waves(dtype) if isinstance(form.rotation, Rotate) else None
    if waves is not None and torch.is_grad_enabled() and any(x.requires_grad for x in waves[0]):
        # Angles learn from sums over tokens in which the rounding of 16 bits adds up.
        common = dtype
    factor = form.query_scale
    # Rounded once: a scale that differs between queries multiplies what is not rounded yet.
    q, k = call.q.to(dtype if factor is not None else common), call.k.to(common)
    if waves is not None and isinstance(form.rotation, Rotate):
        q, k = _rotated(q, k, form.rotation, *waves)
    scale = call.scale * form.scale
    if factor is not None:
        q, scale = (q * (scale * factor.to(dtype)[..., None])).to(common), 1.0
    return q, k, group(call.v.to(common), k.shape[1]), scale


def _rotated(
    q: Tensor, k: Tensor, term: Rotate, q_waves: CosSin, k_waves: CosSin | None
) -> tuple[Tensor, Tensor]:
    if k_waves is None:
        return rotated((q,), q_waves[:1], q_waves[1:], term.layout, term.start)[0], k
    cos, sin = zip(q_waves, k_waves, strict=True)
    k = per_query_head(k, term, q.shape[1])
    rotated_q, rotated_k = rotated((q, k), cos, sin, term.layout, term.start)
    return rotated_q, rotated_k


def scale_of(call: Call) -> Tensor | float:
    """What multiplies the content: a number, or (1|b, 1|h, tq, 1)."""
    scale, factor = call.scale * call.form.scale, call.form.query_scale
    if factor is None:
        return scale
    return scale * factor.to(arithmetic(call.q, call.k, call.v))[..., None]
