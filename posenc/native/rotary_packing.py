"""A call of the C kernel that rotates, packed for tensors of given shapes and steps in memory."""

from collections.abc import Sequence
from struct import Struct

import torch
from torch import Tensor

from posenc.native.library import LIBRARY, TYPES
from posenc.torch_modes import threads

# struct pe_rotation before its tensors, and struct pe_rotated in two parts, for in the next layer
# nothing differs but where x is and where it goes; the types of x and of cos.
_CALL, _ADDRESSES, _ROTATED = (Struct(f"={count}q").pack for count in (6, 2, 16))
BESIDE = {
    (kind, torch.float64 if kind == torch.float64 else torch.float32): number
    for kind, number in TYPES.items()
}
# From so many bytes on, page faults of a fresh output cost more than its contents.
HUGE = 1 << 22

Tensors = Sequence[Tensor]


def packed(
    x: Tensors,
    out: Tensors,
    cos: Tensors,
    sin: Tensors,
    interleaved: bool,
    start: int,
    back: bool,
) -> tuple[bytes, ...] | None:
    """The call of the kernel but for the addresses of x and `out`; None where it cannot."""
    if isinstance(LIBRARY, str):
        return None
    pairs, table = cos[0].shape[-1], None
    parts = [_CALL(len(x), pairs, start, interleaved, back, threads())]
    for place, one in enumerate(x):
        to, c, s = out[place], cos[place], sin[place]
        # q and k mostly share their cos and sin; each question to a tensor takes its time.
        if table is None or c is not cos[0] or s is not sin[0]:
            table = _table(c, s)
        size, steps, to_steps = one.shape, one.stride(), to.stride()
        if table is None or len(size) != 4 or not one.is_cpu:
            return None
        (of_batch, of_heads, of_tokens, pairs), dtype, addresses, table_steps = table
        kind = BESIDE.get((one.dtype, dtype))
        batch, heads, tokens, dim = size
        if kind is None or steps[3] != 1 or to_steps[3] != 1 or not 0 <= start <= dim - 2 * pairs:
            return None
        if of_tokens != tokens or of_batch not in (1, batch) or of_heads not in (1, heads):
            return None
        steps = *steps[:3], *to_steps[:3], *table_steps
        parts.append(_ROTATED(*addresses, kind, *size, *steps))
    return tuple(parts)


def run_packed(call: tuple[bytes, ...], x: Tensors, out: Tensors) -> None:
    """Write x, rotated, into `out`, for which the call was packed or which are alike."""
    assert not isinstance(LIBRARY, str)
    whole = call[0]
    for one, to, rest in zip(x, out, call[1:], strict=True):
        address = to.data_ptr()
        whole += _ADDRESSES(one.data_ptr(), address) + rest
        if to is not one and (size := to.nbytes) >= HUGE:
            LIBRARY.kernels.pe_huge_pages(address, size)
    LIBRARY.kernels.pe_rotate(whole)


def _table(
    cos: Tensor, sin: Tensor
) -> tuple[torch.Size, torch.dtype, tuple[int, int], tuple[int, int, int]] | None:
    """Shape, dtype, addresses and steps of cos and sin, or None where they differ in more."""
    shape, strides, dtype = cos.shape, cos.stride(), cos.dtype
    if len(shape) != 4 or shape != sin.shape or strides != sin.stride() or dtype != sin.dtype:
        return None
    of_batch, of_heads, of_tokens, of_pairs = strides
    if of_pairs != 1 or not (cos.is_cpu and sin.is_cpu):
        return None
    batch, heads, _, _ = shape
    steps = of_batch if batch > 1 else 0, of_heads if heads > 1 else 0, of_tokens
    return shape, dtype, (cos.data_ptr(), sin.data_ptr()), steps
