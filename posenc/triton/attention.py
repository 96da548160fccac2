"""Flash attention with a table or slopes over the distance, forward and backward.

The score of a pair is scale q . k + table[h, clamp(k - q + zero)] + slope[h] * -|k - q|, where
the second and third may be missing, and a sink may stand beside the scores of a row; see
`posenc.terms`. Memory grows with the length, not with its square, and nothing is added by atomics:
two runs give the same bits.
"""

import math
from typing import Any

import torch
import triton
from torch import Tensor

from posenc.errors import UnsupportedError
from posenc.triton import decoding, on_device
from posenc.triton.backward import diagonal_kernel, key_kernel, query_kernel
from posenc.triton.forward import forward_kernel
from posenc.triton.kernel_args import (
    LOG2_E,
    SCHEMA,
    Inputs,
    KernelArgs,
    exact_scale,
    tile_map,
)


def attend(x: Inputs) -> Tensor:
    """out (b, h, tq, e) in the dtype of q."""
    tracked = torch.is_grad_enabled() and any(
        tensor is not None and tensor.requires_grad for tensor in (x.q, x.k, x.v, x.table, x.sink)
    )
    if tracked or torch.compiler.is_compiling():
        return torch.ops.posenc.triton_attend(*x)[0]
    return _forward(*x)[0]


def attend_with_lse(x: Inputs) -> tuple[Tensor, Tensor]:
    """The same, and the log of the sum of exp(score) of each row (b, h, tq)."""
    out, level = torch.ops.posenc.triton_attend(*x)
    # Of a row that sees nothing it is infinite, so that its weights vanish in the backward pass.
    return out, (level * math.log(2)).masked_fill(level == torch.inf, -torch.inf)


def _forward(*inputs: Any) -> tuple[Tensor, Tensor]:
    x = Inputs(*inputs)
    if decoding.fits(x):
        return decoding.decode(x)
    x = exact_scale(x)
    args = KernelArgs(x)
    out, lse = _outputs(*inputs)
    if out.numel() == 0:
        return out, lse
    bm, bn, warps, stages = args.blocks(backward=False)
    # In one dimension, for the others end at 65,535.
    programs = triton.cdiv(args.q_len, bm) * args.batch * args.heads
    with on_device(x.q):
        forward_kernel[programs,](
            x.q, x.k, x.v, out, lse, *args.strides, *out.stride(), *args.bias, args.sink,
            *args.places, *tile_map(args, bm, bn), x.scale * LOG2_E, *args.sizes,
            **args.constants, SINK=x.sink is not None, BM=bm, BN=bn, num_warps=warps,
            num_stages=stages, enable_fp_fusion=True,
        )  # fmt: skip
    return out, lse


def _outputs(*inputs: Any) -> tuple[Tensor, Tensor]:
    x = Inputs(*inputs)
    rows = x.q.shape[:3]
    return x.q.new_empty(*rows, x.v.shape[-1]), x.q.new_empty(rows, dtype=x.exact)


def _backward(
    dout: Tensor, out: Tensor, lse: Tensor, dlse: Tensor | None, with_table: bool, *inputs: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """dq, dk, dv and the gradients of table and sink, empty where they are not asked for.

    lse, dlse  in units of log 2; None where nothing was made of it
    """
    given = Inputs(*inputs)
    x = exact_scale(given)
    args = KernelArgs(x)
    dq, dk, dv, dtable, dsink = _gradients(dout, out, lse, dlse, with_table, *inputs)
    if out.numel() == 0:
        return dq, dk.zero_(), dv.zero_(), dtable.zero_(), dsink.zero_()
    delta, of_rows = torch.empty_like(lse), None
    if dlse is not None:
        # The gradient of the natural logarithm, which the kernel takes off the mean of dp.
        delta = (dlse / math.log(2)).masked_fill(lse == torch.inf, 0.0).contiguous()
        of_rows = delta.sum((0, 2))
    bm, bn, warps, stages = args.blocks(backward=True)
    seen = tile_map(args, bm, bn)
    many = args.batch * args.heads
    launch = {"num_warps": warps, "num_stages": stages, "enable_fp_fusion": True}
    scales = x.scale * LOG2_E, x.scale if x is given else 1.0
    with on_device(x.q):
        query_kernel[triton.cdiv(args.q_len, bm) * many,](
            x.q, x.k, x.v, out, dout, dq, lse, delta, *args.strides, *out.stride(),
            *dout.stride(), *dq.stride(), *args.bias, *args.places, *seen, *scales, *args.sizes,
            **args.constants, LSE=dlse is not None, BM=bm, BN=bn, **launch,
        )  # fmt: skip
        key_kernel[triton.cdiv(args.k_len, bn) * (many // args.group),](
            x.q, x.k, x.v, dout, dk, dv, lse, delta, *args.strides, *dout.stride(),
            *dk.stride(), *dv.stride(), *args.bias, *args.places, *seen, *scales, *args.sizes,
            **args.constants, BM=bm, BN=bn, **launch,
        )  # fmt: skip
        if x is not given:
            dq.mul_(given.scale)
            dk.mul_(math.log(2))
        if x.sink is not None:
            of_sink = ((args.sink[:, None] - lse).exp2() * delta).sum((0, 2))
            dsink = -of_sink.to(x.sink.dtype)
            # What it takes, the scores of the keys give.
            of_rows = of_sink if of_rows is None else of_rows + of_sink
        if x.table is None or not with_table:
            return dq, dk, dv, dtable, dsink
        lowest, count = args.near_diagonals(bm)
        sums = lse.new_empty(args.batch, args.heads, count, 2, bm)
        if count:
            diagonal_kernel[count * many,](
                x.q, x.k, x.v, dout, sums, lse, delta, *args.strides, *dout.stride(),
                *args.bias, *args.places, lowest, count, scales[0], *args.sizes,
                **args.constants, B=bm, **launch,
            )  # fmt: skip
    first = (lowest - 1) * bm - (args.k_len - args.q_len) + x.zero
    return dq, dk, dv, _table_gradient(sums.sum(0), first, x.table, of_rows), dsink


def _gradients(
    dout: Tensor, out: Tensor, lse: Tensor, dlse: Tensor | None, with_table: bool, *inputs: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    x = Inputs(*inputs)
    dtable = torch.empty_like(x.table) if with_table and x.table is not None else lse.new_empty(0)
    dsink = lse.new_empty(0) if x.sink is None else torch.empty_like(x.sink)
    return torch.empty_like(x.q), torch.empty_like(x.k), torch.empty_like(x.v), dtable, dsink


def _table_gradient(sums: Tensor, first: int, table: Tensor, of_rows: Tensor | None) -> Tensor:
    """Sums along diagonals (h, tiles, 2, B) as the gradient of the table (1|h, n).

    first    the table's row of the first diagonal, beyond its ends too
    of_rows  sums of the gradients of all scores (h), None where they are zero
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
    # What all gradients of scores add up to is known: this is what all the far past gets.
    rest = grad[:, 1:].sum(1)
    grad[:, 0] = -rest if of_rows is None else of_rows - rest
    return (grad.sum(0, keepdim=True) if table.shape[0] == 1 else grad).to(table.dtype)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, table, past, future, places, *ctx.settings, sink, ctx.asks_lse = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*output, q, k, v, table, past, future, sink, *places)


def _op_backward(ctx: Any, dout: Tensor | None, dlse: Tensor | None) -> tuple[Any, ...]:
    out, lse, q, k, v, table, past, future, sink, *places = ctx.saved_tensors
    dout = torch.zeros_like(out) if dout is None else dout
    with_table = table is not None and ctx.needs_input_grad[3]
    inputs = q, k, v, table, past, future, places, *ctx.settings, sink, ctx.asks_lse
    dq, dk, dv, dtable, dsink = torch.ops.posenc.triton_attend_backward(
        dout, out, lse, dlse, with_table, *inputs
    )
    nothing = [None] * len(ctx.settings)
    dtable, dsink = dtable if with_table else None, None if sink is None else dsink
    return (dq, dk, dv, dtable, None, None, [None] * len(places), *nothing, dsink, None)


def _no_second(ctx: Any, *_: Any) -> None:
    raise UnsupportedError(
        "attend(backend='triton') has no gradient of its gradient: "
        "use backend='reference' where create_graph=True"
    )


_library = torch.library.Library("posenc", "FRAGMENT")
_library.define(f"triton_attend({SCHEMA}) -> (Tensor, Tensor)")
_library.define(
    "triton_attend_backward(Tensor dout, Tensor out, Tensor lse, Tensor? dlse, bool with_table, "
    f"{SCHEMA}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)"
)
for _key in ("CPU", "CUDA"):
    _library.impl("triton_attend", _forward, _key)
    _library.impl("triton_attend_backward", _backward, _key)
torch.library.register_fake("posenc::triton_attend", _outputs, lib=_library)
torch.library.register_fake("posenc::triton_attend_backward", _gradients, lib=_library)
torch.library.register_autograd(
    "posenc::triton_attend", _op_backward, setup_context=_setup, lib=_library
)
torch.library.register_autograd("posenc::triton_attend_backward", _no_second, lib=_library)
