"""One query that meets all its keys with a ready mask, by a call that is quick to make."""

from struct import Struct

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from posenc.native.library import LIBRARY, TYPES
from posenc.torch_modes import threads

# struct pe_query.
_PACK = Struct("=23qdq").pack
# Products of numbers that are worth a worker of their own.
_SHARE = 1 << 16


def suits(q: Tensor) -> bool:
    """Whether there is a kernel for queries of this dtype, on a CPU."""
    return q.dtype in TYPES and not isinstance(LIBRARY, str)


def attend(
    q: Float[Tensor, "b h 1 d"],
    k: Float[Tensor, "b g t d"],
    v: Float[Tensor, "b g t d_v"],
    scale: float,
    mask: Float[Tensor, "#b #h 1 t"] | None = None,
    sink: Float64[Tensor, " h"] | None = None,
) -> Float[Tensor, "b h 1 d_v"]:
    """softmax(scale * q . k + mask; sink beside) v, zeros where the mask is -inf everywhere.

    Without a gradient. What the mask hides is not read. It has the dtype of the arithmetic:
    float64 for float64, else float32.
    """
    assert not isinstance(LIBRARY, str)
    batch, heads, _, width = q.shape
    _, key_heads, keys, value_width = v.shape
    *q_steps, _, by_q = q.stride()
    *k_steps, by_k = k.stride()
    *v_steps, by_v = v.stride()
    # One number alone has any step, which `contiguous` leaves and nothing reads.
    if (width > 1 and not by_q == by_k == 1) or (value_width > 1 and by_v != 1):
        return attend(q.contiguous(), k.contiguous(), v.contiguous(), scale, mask, sink)
    address, mask_steps = 0, (0, 0)
    if mask is not None:
        by_row, by_head, _, by_key = mask.stride()
        if keys > 1 and by_key != 1:
            return attend(q, k, v, scale, mask.contiguous(), sink)
        address = mask.data_ptr()
        mask_steps = by_row if mask.shape[0] > 1 else 0, by_head if mask.shape[1] > 1 else 0
    out = q.new_empty(batch, heads, 1, value_width)
    tasks = batch * heads
    workers = min(threads(), tasks, 1 + tasks * keys * width // _SHARE)
    call = _PACK(
        TYPES[q.dtype],
        *(batch, heads, key_heads, keys, width, value_width, workers),
        *(q.data_ptr(), *q_steps),
        *(k.data_ptr(), *k_steps),
        *(v.data_ptr(), *v_steps),
        *(address, *mask_steps),
        0 if sink is None else sink.data_ptr(),
        scale,
        out.data_ptr(),
    )
    kernels = LIBRARY.kernels
    if q.dtype == torch.float64:
        scratch, kernel = kernels.pe_query_double_scratch, kernels.pe_query_double
    else:
        scratch, kernel = kernels.pe_query_float_scratch, kernels.pe_query_float
    # Where q is, whatever the default device may be.
    memory = q.new_empty(workers * scratch(call), dtype=torch.uint8)
    kernel(call, memory.data_ptr())
    return out
