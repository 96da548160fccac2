"""Flash attention with a table, slopes over the distance and offsets, forward and backward.

The score of a pair is scale q . k + table[h, clamp(k - q + zero)] + slope[h] * -|k - q|
+ q_offset + k_offset, where all but the first may be missing, and a sink may stand beside the
scores of a row; see `posenc.terms`. Memory grows with the length, not with its square but for a
number per two tiles, and nothing is added by atomics: two runs give the same bits.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
import triton
from torch import Tensor

from posenc.errors import UnsupportedError
from posenc.triton import decoding, on_device
from posenc.triton.forward import forward_kernel
from posenc.triton.kernel_args import LOG2_E, SCHEMA, Inputs, KernelArgs, exact_scale
from posenc.triton.key_gradient import key_kernel
from posenc.triton.query_gradient import query_kernel
from posenc.triton.table_gradient import gathered, near_diagonals, tiles_at_once
from posenc.triton.tile_lists import made_for


def attend(x: Inputs) -> Tensor:
    """out (b, h, tq, e) in the dtype of q."""
    tracked = torch.is_grad_enabled() and any(
        tensor is not None and tensor.requires_grad
        for tensor in (x.q, x.k, x.v, x.table, x.sink, x.q_offset, x.k_offset)
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
    bm, bn, warps, stages = args.blocks("forward")
    # In one dimension, for the others end at 65,535.
    programs = triton.cdiv(args.q_len, bm) * args.batch * args.heads
    with on_device(x.q):
        forward_kernel[(programs,)](
            x.q, x.k, x.v, out, lse, *args.strides, *out.stride(), *args.bias, *args.reach,
            args.sink, *args.offsets, *args.places, *_lists(x)[:2], x.scale * LOG2_E, *args.sizes,
            **args.constants, SINK=x.sink is not None, RISING=x.scale >= 0, BM=bm, BN=bn,
            num_warps=warps, num_stages=stages, enable_fp_fusion=True,
        )  # fmt: skip
    return out, lse


def _lists(x: Inputs, backward: bool = False) -> Sequence[Tensor]:
    """Lists of tiles, of which plain positions read none."""
    if x.plain:
        return [x.q] * 6
    return x.lists if len(x.lists) > 2 * backward else made_for(x, backward)


def _outputs(*inputs: Any) -> tuple[Tensor, Tensor]:
    x = Inputs(*inputs)
    rows = x.q.shape[:3]
    return x.q.new_empty(*rows, x.v.shape[-1]), x.q.new_empty(rows, dtype=x.exact)


def _backward(
    dout: Tensor, out: Tensor, lse: Tensor, dlse: Tensor | None, with_table: bool, *inputs: Any
) -> tuple[Tensor, ...]:
    """The gradients of q, k, v, table, sink and both offsets, empty where not asked for.

    lse, dlse  in units of log 2; None where nothing was made of it
    """
    given = Inputs(*inputs)
    x = exact_scale(given)
    args = KernelArgs(x)
    grads = _gradients(dout, out, lse, dlse, with_table, *inputs)
    dq, dk, dv, dtable, dsink, dq_offset, dk_offset = grads
    if out.numel() == 0:
        for grad in grads[1:]:
            grad.zero_()
        return grads
    delta, by_row = torch.empty_like(lse), None
    if dlse is not None:
        # The gradient of the natural logarithm.
        by_row = (dlse / math.log(2)).masked_fill(lse == torch.inf, 0.0).contiguous()
    of_lse = lse if by_row is None else by_row
    bm, bn, warps, stages = args.blocks("queries")
    lists = _lists(x, backward=True)
    shared = *args.bias, *args.reach, *args.offsets, *args.places
    scales = x.scale * LOG2_E, x.scale if x is given else 1.0
    many = args.batch * args.heads
    tiles = triton.cdiv(args.q_len, bm)
    lowest, diagonals = near_diagonals(args, bm, bn) if with_table else (0, 0)
    at_once = tiles_at_once(args, diagonals, bm, bn) if with_table else tiles
    parts = diagonals, bm // bn + 1, bn
    line, beyond = lse.new_zeros(args.heads, *parts), lse.new_zeros(args.heads)
    of_keys = lse.new_empty(*x.q.shape[:2], 0 if x.k_offset is None else args.k_len)
    with on_device(x.q):
        for first in range(0, tiles, at_once):
            some = min(at_once, tiles - first)
            sums, ahead = lse, lse
            if with_table:
                sums = lse.new_zeros(args.batch, args.heads, some, *parts)
                ahead = lse.new_empty(args.batch, args.heads, some)
            query_kernel[(some * many,)](
                x.q, x.k, x.v, out, dout, dq, lse, of_lse, delta, sums, ahead, *args.strides,
                *out.stride(), *dout.stride(), *dq.stride(), *shared, *lists[2:4], first, some,
                lowest, diagonals, *scales, *args.sizes, **args.constants, LSE=dlse is not None,
                SUMS=with_table, BM=bm, BN=bn, num_warps=warps, num_stages=stages,
                enable_fp_fusion=True,
            )  # fmt: skip
            if with_table:
                line, beyond = line + sums.sum((0, 2)), beyond + ahead.sum((0, 2))
        key_m, key_n, warps, stages = args.blocks("keys")
        key_kernel[(triton.cdiv(args.k_len, key_n) * many // args.group,)](
            x.q, x.k, x.v, dout, dk, dv, lse, delta, of_keys, *args.strides, *dout.stride(),
            *dk.stride(), *dv.stride(), *shared, *lists[4:6], *scales, *args.sizes,
            **args.constants, BM=key_m, BN=key_n, num_warps=warps, num_stages=stages,
            enable_fp_fusion=True,
        )  # fmt: skip
    if x is not given:
        dq.mul_(given.scale)
        dk.mul_(math.log(2))
    if x.sink is not None:
        # What it takes, the scores of the keys give.
        of_sink = (args.sink[:, None] - lse).exp2() * delta
        dsink = -of_sink.sum((0, 2)).to(x.sink.dtype)
        by_row = of_sink if by_row is None else by_row + of_sink
    if x.table is not None and with_table:
        first = lowest * bn - bm - (args.k_len - args.q_len) + x.zero
        of_rows = None if by_row is None else by_row.sum((0, 2))
        dtable = gathered(line, beyond, first, x.table, of_rows)
    if x.q_offset is not None and x.k_offset is not None:
        by_row = torch.zeros_like(lse) if by_row is None else by_row
        dq_offset, dk_offset = (
            grad.sum_to_size(offset.shape).to(offset.dtype)
            for grad, offset in ((by_row, x.q_offset), (of_keys, x.k_offset))
        )
    return dq, dk, dv, dtable, dsink, dq_offset, dk_offset


def _gradients(
    dout: Tensor, out: Tensor, lse: Tensor, dlse: Tensor | None, with_table: bool, *inputs: Any
) -> tuple[Tensor, ...]:
    x = Inputs(*inputs)
    told = x.table if with_table else None, x.sink, x.q_offset, x.k_offset
    rest = (lse.new_empty(0) if one is None else torch.empty_like(one) for one in told)
    return torch.empty_like(x.q), torch.empty_like(x.k), torch.empty_like(x.v), *rest


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x = Inputs(*inputs)
    ctx.set_materialize_grads(False)
    tensors = x.q, x.k, x.v, x.table, x.past, x.future, x.sink, x.q_offset, x.k_offset
    ctx.save_for_backward(*output, *tensors, *x.places, *x.lists)
    ctx.placed = len(x.places)
    ctx.settings = x.zero, x.scale, x.causal, x.width, x.sinks, x.prefix, x.plain
    ctx.asks_lse = x.lse


def _op_backward(ctx: Any, dout: Tensor | None, dlse: Tensor | None) -> tuple[Any, ...]:
    out, lse, q, k, v, table, past, future, sink, *rest = ctx.saved_tensors
    q_offset, k_offset, *told = rest
    places, lists = told[: ctx.placed], told[ctx.placed :]
    dout = torch.zeros_like(out) if dout is None else dout
    with_table = table is not None and ctx.needs_input_grad[3]
    biases = table, past, future, places, *ctx.settings, sink, ctx.asks_lse
    dq, dk, dv, *others = torch.ops.posenc.triton_attend_backward(
        dout, out, lse, dlse, with_table, q, k, v, *biases, q_offset, k_offset, lists
    )
    asked = table if with_table else None, sink, q_offset, k_offset
    dtable, dsink, dq_offset, dk_offset = (
        None if tensor is None else grad for tensor, grad in zip(asked, others, strict=True)
    )
    nothing = [None] * len(ctx.settings)
    of_lists = [None] * len(places), *nothing, dsink, None, dq_offset, dk_offset
    return dq, dk, dv, dtable, None, None, *of_lists, [None] * len(lists)


def _no_second(ctx: Any, *_: Any) -> None:
    raise UnsupportedError(
        "attend(backend='triton') has no gradient of its gradient: "
        "use backend='reference' where create_graph=True"
    )


_library = torch.library.Library("posenc", "FRAGMENT")
_library.define(f"triton_attend({SCHEMA}) -> (Tensor, Tensor)")
_library.define(
    "triton_attend_backward(Tensor dout, Tensor out, Tensor lse, Tensor? dlse, bool with_table, "
    f"{SCHEMA}) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
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
