"""Flash attention with a table, slopes over the distance and offsets, forward and backward.

The score of a pair is scale q . k + table[h, clamp(k - q + zero)] + slope[h] * -|k - q|
+ q_offset + k_offset, where all but the first may be missing, and a sink may stand beside the
scores of a row; see `posenc.terms`. Memory grows with the length, not with its square but for a
number per two tiles, and nothing is added by atomics: two runs give the same bits.
"""

import math
from typing import Any

import torch
from torch import Tensor

from posenc.errors import UnsupportedError
from posenc.torch_modes import plain
from posenc.triton import decoding, in_32_bits
from posenc.triton.kernel_args import LOG2_E, SCHEMA, Inputs, exact_scale
from posenc.triton.launches import BackwardPass, forward_launch


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
    grads = _gradients(dout, out, lse, dlse, with_table, *inputs)
    dq, dk, dv, dtable, dsink, dq_offset, dk_offset = grads
    dout = in_32_bits(dout)
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
    # The gradient of each key's offset.
    of_keys = lse
    if x.k_offset is not None:
        of_keys = lse.new_empty(*x.q.shape[:2], x.k.shape[2])
    scales = x.scale * LOG2_E, x.scale if x is given else 1.0
    written = out, dout, dq, dk, dv
    passed = BackwardPass(x, written, scales, lse=dlse is not None, table=with_table)
    sums, beyond = passed(x.q, x.k, x.v, *written, lse, of_lse, delta, of_keys)
    if x is not given:
        dq.mul_(given.scale)
        dk.mul_(math.log(2))
    if x.sink is not None:
        # What it takes, the scores of the keys give.
        of_sink = (x.sink.to(x.exact)[:, None] * LOG2_E - lse).exp2() * delta
        dsink = -of_sink.sum((0, 2)).to(x.sink.dtype)
        by_row = of_sink if by_row is None else by_row + of_sink
    if passed.table is not None:
        dtable = passed.table.gradient(sums, beyond, None if by_row is None else by_row.sum((0, 2)))
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
