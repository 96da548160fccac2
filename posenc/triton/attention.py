"""Flash attention with a table or slopes over the distance, forward and backward.

The score of a pair is scale q . k + table[h, clamp(k - q + zero)] + slope[h] * -|k - q|, where
the second and third may be missing; see `posenc.terms`. Memory grows with the length, not with
its square, and nothing is added by atomics: two runs give the same bits.
"""

import math
from typing import Any

import torch
import triton
from torch import Tensor

from posenc.triton import decoding
from posenc.triton.backward import diagonal_kernel, key_kernel, query_kernel
from posenc.triton.forward import forward_kernel
from posenc.triton.kernel_args import KernelArgs, Rules, tile_map
from posenc.triton.launching import on_device

_LOG2 = math.log2(math.e)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    rules: Rules,
    scale: float,
    table: Tensor | None = None,
    zero: int = 0,
    slopes: tuple[Tensor, Tensor] | None = None,
    places: list[Tensor] | None = None,
) -> Tensor:
    """out (b, h, tq, e) in the dtype of q (b, h, tq, d), k (b, g, tk, d) and v (b, g, tk, e).

    rules   what is visible, static
    table   (1|h, n), differentiable; the row of distance 0 is `zero`, beyond its ends it is flat
    slopes  (past, future), each (h,): score -= slope * |distance|; no gradient
    places  for positions that are not plain, what `KernelArgs` lists
    """
    past, future = (None, None) if slopes is None else slopes
    given = (q, k, v, table, past, future, places or [], zero, scale, *rules)
    tracked = torch.is_grad_enabled() and any(
        x is not None and x.requires_grad for x in (q, k, v, table)
    )
    if tracked or torch.compiler.is_compiling():
        return torch.ops.posenc.triton_attend(*given)[0]
    if decoding.fits(q, k, rules):
        return decoding.decode(q, k, v, rules, scale, table, zero, slopes)
    return _forward(*given)[0]


def _forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    table: Tensor | None,
    past: Tensor | None,
    future: Tensor | None,
    places: list[Tensor],
    zero: int,
    scale: float,
    *rules: Any,
) -> tuple[Tensor, Tensor]:
    args = KernelArgs(q, k, v, table, past, future, places, zero, Rules(*rules))
    out, lse = _outputs(q, v)
    if out.numel() == 0:
        return out, lse
    bm, bn, warps, stages = args.blocks(backward=False)
    seen, stride = tile_map(args, bm, bn)
    grid = (triton.cdiv(args.q_len, bm), args.batch * args.heads)
    with on_device(q):
        forward_kernel[grid](
            q, k, v, out, lse, *q.stride(), *k.stride(), *v.stride(), *out.stride(),
            *args.bias, *args.places, seen, stride, scale * _LOG2, *args.sizes,
            **args.constants, BM=bm, BN=bn, num_warps=warps, num_stages=stages,
            enable_fp_fusion=True,
        )  # fmt: skip
    return out, lse


def _outputs(q: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    batch, heads, q_len, _ = q.shape
    exact = torch.promote_types(q.dtype, torch.float32)
    out = q.new_empty(batch, heads, q_len, v.shape[-1])
    return out, q.new_empty(batch, heads, q_len, dtype=exact)


def _backward(
    dout: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    table: Tensor | None,
    past: Tensor | None,
    future: Tensor | None,
    places: list[Tensor],
    zero: int,
    scale: float,
    with_table: bool,
    *rules: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """dq, dk, dv and the table's gradient, empty where it is not asked for."""
    args = KernelArgs(q, k, v, table, past, future, places, zero, Rules(*rules))
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    if out.numel() == 0:
        dtable = lse.new_zeros(() if table is None else table.shape)
        return dq, dk.zero_(), dv.zero_(), dtable
    delta = torch.empty_like(lse)
    bm, bn, warps, stages = args.blocks(backward=True)
    seen, stride = tile_map(args, bm, bn)
    many = args.batch * args.heads
    launch = {"num_warps": warps, "num_stages": stages, "enable_fp_fusion": True}
    strides = (*q.stride(), *k.stride(), *v.stride())
    scales = scale * _LOG2, scale
    with on_device(q):
        query_kernel[triton.cdiv(args.q_len, bm), many](
            q, k, v, out, dout, dq, lse, delta, *strides, *out.stride(), *dout.stride(),
            *dq.stride(), *args.bias, *args.places, seen, stride, *scales, *args.sizes,
            **args.constants, BM=bm, BN=bn, **launch,
        )  # fmt: skip
        key_kernel[triton.cdiv(args.k_len, bn), many // args.group](
            q, k, v, dout, dk, dv, lse, delta, *strides, *dout.stride(), *dk.stride(),
            *dv.stride(), *args.bias, *args.places, seen, stride, *scales, *args.sizes,
            **args.constants, BM=bm, BN=bn, **launch,
        )  # fmt: skip
        if table is None or not with_table:
            return dq, dk, dv, lse.new_empty(0)
        lowest, count = args.near_diagonals(bm)
        sums = lse.new_empty(args.batch, args.heads, count, 2, bm)
        if count:
            diagonal_kernel[count, many](
                q, k, v, dout, sums, lse, delta, *strides, *dout.stride(),
                *args.bias, *args.places, lowest, scales[0], *args.sizes,
                **args.constants, B=bm, **launch,
            )  # fmt: skip
    first = (lowest - 1) * bm - (args.k_len - args.q_len) + zero
    return dq, dk, dv, _table_gradient(sums.sum(0), first, table)


def _table_gradient(sums: Tensor, first: int, table: Tensor) -> Tensor:
    """Sums along diagonals (h, tiles, 2, B) as the gradient of the table (1|h, n).

    first  the table's row of the first diagonal, beyond its ends too
    """
    heads, tiles, _, block = sums.shape
    # The upper half of one row of tiles and the lower half of the next are the same diagonals.
    line = sums.new_zeros(heads, tiles + 1, block)
    line[:, :-1] += sums[:, :, 0]
    line[:, 1:] += sums[:, :, 1]
    line = line.flatten(1)
    size, length = table.shape[-1], line.shape[1]
    grad = sums.new_zeros(heads, size)
    begin, end = min(max(0, 1 - first), length), min(max(0, size - first), length)
    if end > begin:
        grad[:, first + begin : first + end] = line[:, begin:end]
    if size > 1:
        grad[:, -1] += line[:, max(begin, end) :].sum(1)
    # Gradients of a row's scores add up to zero: this is what all the far past gets.
    grad[:, 0] = -grad[:, 1:].sum(1)
    return (grad.sum(0, keepdim=True) if table.shape[0] == 1 else grad).to(table.dtype)


_library = torch.library.Library("posenc", "FRAGMENT")
_RULES = "bool causal, SymInt width, SymInt sinks, SymInt prefix, bool plain"
_library.define(
    "triton_attend(Tensor q, Tensor k, Tensor v, Tensor? table, Tensor? past, Tensor? future, "
    f"Tensor[] places, SymInt zero, float scale, {_RULES}) -> (Tensor, Tensor)"
)
_library.define(
    "triton_attend_backward(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, "
    "Tensor? table, Tensor? past, Tensor? future, Tensor[] places, SymInt zero, float scale, "
    f"bool with_table, {_RULES}) -> (Tensor, Tensor, Tensor, Tensor)"
)
for _key in ("CPU", "CUDA"):
    _library.impl("triton_attend", _forward, _key)
    _library.impl("triton_attend_backward", _backward, _key)


@torch.library.register_fake("posenc::triton_attend", lib=_library)
def _fake(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return _outputs(q, v)


@torch.library.register_fake("posenc::triton_attend_backward", lib=_library)
def _fake_backward(
    dout: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    table: Tensor | None,
    past: Tensor | None,
    future: Tensor | None,
    places: list[Tensor],
    zero: int,
    scale: float,
    with_table: bool,
    *_: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    dtable = torch.empty_like(table) if with_table and table is not None else lse.new_empty(0)
    return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v), dtable


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, table, past, future, places, *settings = inputs
    out, lse = output
    ctx.mark_non_differentiable(lse)
    ctx.save_for_backward(q, k, v, out, lse, table, past, future, *places)
    ctx.settings = settings


def _op_backward(ctx: Any, dout: Tensor, _: Any) -> tuple[Any, ...]:
    q, k, v, out, lse, table, past, future, *places = ctx.saved_tensors
    zero, scale, *rules = ctx.settings
    with_table = table is not None and ctx.needs_input_grad[3]
    dq, dk, dv, dtable = torch.ops.posenc.triton_attend_backward(
        dout, q, k, v, out, lse, table, past, future, places, zero, scale, with_table, *rules
    )
    nothing = [None] * len(ctx.settings)
    dtable = dtable if with_table else None
    return (dq, dk, dv, dtable, None, None, [None] * len(places), *nothing)


torch.library.register_autograd(
    "posenc::triton_attend", _op_backward, setup_context=_setup, lib=_library
)
