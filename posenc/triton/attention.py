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
from torch import Tensor

from posenc.errors import UnsupportedError
from posenc.torch_modes import plain
from posenc.triton import decoding
from posenc.triton.forward import forward_kernel
from posenc.triton.kernel_args import LOG2_E, SCHEMA, Inputs, KernelArgs, exact_scale
from posenc.triton.key_gradient import key_kernel
from posenc.triton.launch import Launch
from posenc.triton.query_gradient import query_kernel
from posenc.triton.table_gradient import gathered, near_diagonals, tiles_at_once
from posenc.triton.tile_lists import made_for


def attend(x: Inputs) -> Tensor:
    """out (b, h, tq, e) in the dtype of q."""
    return _attend(x)[0]


def attend_with_lse(x: Inputs) -> tuple[Tensor, Tensor]:
    """The same, and the log of the sum of exp(score) of each row (b, h, tq)."""
    out, level = _attend(x)
    # Of a row that sees nothing it is infinite, so that its weights vanish in the backward pass.
    return out, (level * math.log(2)).masked_fill(level == torch.inf, -torch.inf)


def _attend(x: Inputs) -> tuple[Tensor, Tensor]:
    told = x.q, x.k, x.v, x.table, x.past, x.future, x.sink, x.q_offset, x.k_offset
    tensors = [one for one in told if one is not None]
    # For graphs, and for all that watches tensors: to dispatch it takes longer than to run it.
    if torch.compiler.is_compiling() or not plain(*tensors):
        return torch.ops.posenc.triton_attend(*x)
    if torch.is_grad_enabled() and any(one.requires_grad for one in tensors):
        return _Attend.apply(*x)
    return _forward(*x)


def _forward(*inputs: Any) -> tuple[Tensor, Tensor]:
    x = Inputs(*inputs)
    if decoding.fits(x):
        return decoding.decode(x)
    x = exact_scale(x)
    out, lse = _outputs(*inputs)
    if out.numel() > 0:
        forward_launch(x, out)(x.q, x.k, x.v, out, lse)
    return out, lse


def forward_launch(x: Inputs, out: Tensor) -> Launch:
    """Of q, k, v, out and lse."""
    args = KernelArgs(x)
    blocks = args.blocks("forward")
    rest = (
        *args.strides, *out.stride(), *args.bias, *args.reach, args.sink, *args.offsets,
        *args.places, *lists_of(x)[:2], x.scale * LOG2_E, *args.sizes,
    )  # fmt: skip
    settings = args.constants | _settings(*blocks)
    settings |= {"SINK": x.sink is not None, "RISING": x.scale >= 0}
    # In one dimension, for the others end at 65,535.
    programs = -(-args.q_len // blocks[0]) * args.batch * args.heads
    return Launch(forward_kernel, programs, x.q, rest, settings)


def query_launch(
    args: KernelArgs,
    lists: Sequence[Tensor],
    written: Sequence[Tensor],
    scales: tuple[float, float],
    part: tuple[int, int, int, int] | None = None,
    lse: bool = False,
    sums: bool = False,
) -> Launch:
    """Of q, k, v, out, dout, dq, lse, of_lse, delta, sums and ahead.

    written  out, dout and dq, for their strides
    part     the first tile and how many, the lowest diagonal and how many; None: all tiles
    """
    blocks = args.blocks("queries")
    part = (0, -(-args.q_len // blocks[0]), 0, 0) if part is None else part
    strides = [n for x in written for n in x.stride()]
    rest = (
        *args.strides, *strides, *_shared(args), *lists[2:4], *part, *scales, *args.sizes
    )  # fmt: skip
    settings = args.constants | _settings(*blocks) | {"LSE": lse, "SUMS": sums}
    programs = part[1] * args.batch * args.heads
    return Launch(query_kernel, programs, args.inputs.q, rest, settings)


def key_launch(
    args: KernelArgs,
    lists: Sequence[Tensor],
    written: Sequence[Tensor],
    scales: tuple[float, float],
) -> Launch:
    """Of q, k, v, dout, dk, dv, lse, delta and of_keys; `written` is dout, dk and dv."""
    blocks = args.blocks("keys")
    strides = [n for x in written for n in x.stride()]
    rest = *args.strides, *strides, *_shared(args), *lists[4:6], *scales, *args.sizes
    settings = args.constants | _settings(*blocks)
    programs = -(-args.k_len // blocks[1]) * args.batch * args.heads // args.group
    return Launch(key_kernel, programs, args.inputs.q, rest, settings)


def _shared(args: KernelArgs) -> tuple[Any, ...]:
    return *args.bias, *args.reach, *args.offsets, *args.places


def _settings(bm: int, bn: int, warps: int, stages: int) -> dict[str, Any]:
    launch = {"num_warps": warps, "num_stages": stages, "enable_fp_fusion": True}
    return {"BM": bm, "BN": bn, **launch}


def lists_of(x: Inputs, backward: bool = False) -> Sequence[Tensor]:
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
    # Which those who move what autograd saves may have changed.
    lse = lse.contiguous()
    delta, by_row = torch.empty_like(lse), None
    if dlse is not None:
        # The gradient of the natural logarithm.
        by_row = (dlse / math.log(2)).masked_fill(lse == torch.inf, 0.0).contiguous()
    of_lse = lse if by_row is None else by_row
    bm, bn, *_ = args.blocks("queries")
    lists = lists_of(x, backward=True)
    scales = x.scale * LOG2_E, x.scale if x is given else 1.0
    tiles = -(-args.q_len // bm)
    lowest, diagonals = near_diagonals(args, bm, bn) if with_table else (0, 0)
    at_once = tiles_at_once(args, diagonals, bm, bn) if with_table else tiles
    parts = diagonals, bm // bn + 1, bn
    line = beyond = sums = ahead = of_keys = lse
    if with_table:
        line, beyond = lse.new_zeros(args.heads, *parts), lse.new_zeros(args.heads)
    if x.k_offset is not None:
        of_keys = lse.new_empty(*x.q.shape[:2], args.k_len)
    for first in range(0, tiles, at_once):
        some = min(at_once, tiles - first)
        if with_table:
            sums = lse.new_zeros(args.batch, args.heads, some, *parts)
            ahead = lse.new_empty(args.batch, args.heads, some)
        part = first, some, lowest, diagonals
        query = query_launch(
            args, lists, (out, dout, dq), scales, part, lse=dlse is not None, sums=with_table
        )
        query(x.q, x.k, x.v, out, dout, dq, lse, of_lse, delta, sums, ahead)
        if with_table:
            line, beyond = line + sums.sum((0, 2)), beyond + ahead.sum((0, 2))
    keys = key_launch(args, lists, (dout, dk, dv), scales)
    keys(x.q, x.k, x.v, dout, dk, dv, lse, delta, of_keys)
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
    dq, dk, dv, *others = gradients(
        dout, out, lse, dlse, with_table, q, k, v, *biases, q_offset, k_offset, lists
    )
    asked = table if with_table else None, sink, q_offset, k_offset
    dtable, dsink, dq_offset, dk_offset = (
        None if tensor is None else grad for tensor, grad in zip(asked, others, strict=True)
    )
    nothing = [None] * len(ctx.settings)
    of_lists = [None] * len(places), *nothing, dsink, None, dq_offset, dk_offset
    return dq, dk, dv, dtable, None, None, *of_lists, [None] * len(lists)


def gradients(dout: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    """What `_backward` gives, by the operator where a graph or somebody else needs to see it."""
    if torch.is_grad_enabled() or torch.compiler.is_compiling() or not plain(dout):
        # Of which a gradient is refused by name.
        return torch.ops.posenc.triton_attend_backward(dout, *rest)
    return _backward(dout, *rest)


class _Attend(torch.autograd.Function):
    """The operator, for eager code."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor]:
        output = _forward(*inputs)
        _setup(ctx, inputs, output)
        return output

    @staticmethod
    def backward(ctx: Any, *given: Tensor | None) -> tuple[Any, ...]:
        grads = _op_backward(ctx, *given)
        return tuple([None if isinstance(grad, list) else grad for grad in grads])


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
