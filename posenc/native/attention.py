"""Attention with position terms by the C kernels, as two operators with fake and autograd rules.

posenc::attention returns the output and what its gradient needs: the output before it was rounded
(empty where it is not), and of each row the greatest score in units of log 16 and the sum of the
weights relative to it. posenc::attention_backward returns
the gradients that are wanted, in the order of the inputs. Graphs hold the operators, eager calls
take the kernels straight, for a dispatcher costs more than attention between a few tokens.
"""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from posenc.errors import UnsupportedError
from posenc.native.attention_struct import (
    BY_ROWS,
    KINDS,
    LEARNED,
    NETWORK,
    PACK,
    SCHEMA,
    CallStruct,
    Inputs,
    Steps,
)
from posenc.native.gradient_sums import OF_ROWS, share, sums_of
from posenc.native.library import LIBRARY, Library
from posenc.torch_modes import plain, threads

_TYPES = {torch.float32: 0, torch.bfloat16: 1, torch.float64: 2}
# What the fields of a tensor hold, by the ends of their names. A step is between rows of the batch:
# 0 where one row is for all, (t,), (1, t) or (1, h, t).
_HELD: dict[tuple[str, ...], Callable[[Tensor], tuple[int, ...]]] = {
    ("", "_stride"): lambda x: (x.data_ptr(), *x.stride()[:3]),
    ("", "_grad", "_heads", "_rows"): lambda x: (x.data_ptr(), 0, *x.shape[:2]),
    ("", "_grad", "_steps"): lambda x: (x.data_ptr(), 0, x.shape[3]),
    ("",): lambda x: (x.data_ptr(),),
    ("", "_units"): lambda x: (x.data_ptr(), x.shape[1]),
    ("", "_step"): lambda x: (x.data_ptr(), x.stride(0) if x.ndim > 1 and x.shape[0] > 1 else 0),
}
# Of each input what its fields hold, None for a number, and what they do where no tensor is given.
_FIELDS = tuple(
    (_HELD[KINDS[name].fields], (0,) * (4 if name in BY_ROWS else len(KINDS[name].fields)))
    if name in KINDS
    else (None, ())
    for name in Inputs._fields
)
_PLACES = tuple(place for place, name in enumerate(Inputs._fields) if name in KINDS)


def attend(inputs: Inputs) -> Tensor:
    """The output of these inputs, (b, h, tq, d_v)."""
    *values, _ = inputs
    slots: list[Any] = [values[place] for place in _PLACES]
    tensors = [x for x in slots if x is not None]
    learns = torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
    if torch.compiler.is_compiling() or not plain(*tensors):
        return torch.ops.posenc.attention.default(*values, learns)[0]
    return _Attention.apply((*values, learns), *tensors) if learns else _output(inputs)


def _outputs(*inputs: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """out (b, h, tq, d_v), the same before rounding or nothing; peak and mass of each row."""
    x = Inputs(*inputs)
    rows = x.q.shape[:3]
    out = x.q.new_empty(*rows, x.v.shape[3])
    exact = x.q.new_empty(out.shape if _keeps_exact(x) else 0, dtype=_arithmetic(x))
    peak, mass = (x.q.new_empty(rows, dtype=_arithmetic(x)) for _ in range(2))
    return out, exact, peak, mass


def _forward(*inputs: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`_outputs`, filled."""
    outputs = _outputs(*inputs)
    _fill(Inputs(*inputs), *(x.data_ptr() if x.numel() else 0 for x in outputs))
    return outputs


def _output(x: Inputs) -> Tensor:
    """The first of `_outputs`, filled, where no gradient asks for the others."""
    out = x.q.new_empty(*x.q.shape[:3], x.v.shape[3])
    _fill(x, out.data_ptr())
    return out


def _fill(x: Inputs, out: int, exact: int = 0, peak: int = 0, mass: int = 0) -> None:
    """Write the outputs, whose addresses these are; 0 for what is not wanted."""
    library, x = _library(), _readable(x)
    call = _struct_of(x)
    call.out, call.exact_out, call.peak, call.mass = out, exact, peak, mass
    blocks = -(-call.queries // 256)
    call.workers = max(1, min(threads(), call.batch * call.heads * blocks))
    call.chunks = call.slots = 1
    _run(library, call, x.q)


def _backward(
    grad: Tensor, exact: Tensor, peak: Tensor, mass: Tensor, wanted: Sequence[bool], *inputs: Any
) -> list[Tensor]:
    """The gradients that are wanted of `LEARNED`, in its order, from what `_forward` kept."""
    library, x = _library(), _readable(Inputs(*inputs))
    want = {name for name, is_wanted in zip(LEARNED, wanted, strict=True) if is_wanted}
    grad = _rows_contiguous(grad.to(x.q.dtype))
    exact, peak, mass = (t.contiguous() for t in (exact, peak, mass))
    call = _struct_of(x)
    call.backward = 1
    call.exact_out, call.peak, call.mass = (t.data_ptr() for t in (exact, peak, mass))
    call.grad_out, call.grad_stride = grad.data_ptr(), Steps(*grad.stride()[:3])
    share(call, x, threads())

    # Those of tensors by rows are made in any case.
    tensors = {name: getattr(x, name) for name in OF_ROWS if name != "by_count" or name in want}
    grads = {name: t.new_empty(t.shape) for name, t in tensors.items() if t is not None}
    # The kernel sums for both slopes or for none, and for all of a network.
    together = [group for group in ({"past", "future"}, {*NETWORK}) if want & group]
    sums = sums_of(x, call, want.union(*together), _arithmetic(x))
    for name, t in (grads | sums).items():
        setattr(call, f"{name}_grad", t.data_ptr())
    _run(library, call, x.q)

    for name, t in sums.items():
        # Along the first dimension, so in one order; the sum of one slot would be a copy.
        total, term = t[0] if t.shape[0] == 1 else t.sum(0), getattr(x, name)
        alike = term.shape[0] == 1 and total.shape[0] > 1
        grads[name] = (total.sum(0, keepdim=True) if alike else total).to(term.dtype)
    return [grads[name] for name in LEARNED if name in want]


def _library() -> Library:
    if isinstance(LIBRARY, str):
        raise UnsupportedError(f"posenc::attention: {LIBRARY}")
    return LIBRARY


def _arithmetic(x: Inputs) -> torch.dtype:
    return torch.float64 if x.q.dtype == torch.float64 else torch.float32


def _keeps_exact(x: Inputs) -> bool:
    """Whether the output is kept as it was before rounding too."""
    return x.learns and x.q.dtype != _arithmetic(x)


def _struct_of(x: Inputs) -> CallStruct:
    batch, heads, queries, width = x.q.shape
    _, key_heads, keys, value_width = x.v.shape
    sizes = (batch, heads, key_heads, queries, keys, width, value_width)
    values: tuple[Any, ...] = x
    fields: list[Any] = [_TYPES[x.q.dtype], 0, *sizes]
    for value, (held, absent) in zip(values, _FIELDS, strict=True):
        if value is None:
            fields += absent
        elif held is None:
            fields.append(value)
        else:
            fields += held(value)
    return CallStruct.from_buffer_copy(PACK(*fields))


def _readable(x: Inputs) -> Inputs:
    """The same tensors, laid out as the kernel reads them."""
    laid_out: dict[str, Any] = {}
    for place in _PLACES:
        value: Any = x[place]
        if value is not None and not value.is_contiguous():
            name = Inputs._fields[place]
            rows = name in BY_ROWS
            laid_out[name] = _rows_contiguous(value) if rows else value.contiguous()
    return x._replace(**laid_out) if laid_out else x


def _rows_contiguous(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 else x.contiguous()


def _run(library: Library, call: CallStruct, q: Tensor) -> None:
    kernels = library.kernels
    if q.dtype == torch.float64:
        scratch, kernel = kernels.pe_attention_double_scratch, kernels.pe_attention_double
    else:
        scratch, kernel = kernels.pe_attention_float_scratch, kernels.pe_attention_float
    size, rows = scratch(ctypes.addressof(call)), 0
    if not call.peak:
        # What only a gradient reads has no tensor then: it is written behind the scratch.
        rows = call.batch * call.heads * call.queries * (8 if q.dtype == torch.float64 else 4)
    # Where q is, whatever the default device may be.
    memory = q.new_empty(size + 2 * rows, dtype=torch.uint8)
    call.memory = memory.data_ptr()
    if rows:
        call.peak, call.mass = call.memory + size, call.memory + size + rows
    kernel(ctypes.addressof(call))


def _fake_backward(
    grad: Tensor, exact: Tensor, peak: Tensor, mass: Tensor, wanted: list[bool], *inputs: Any
) -> list[Tensor]:
    x = Inputs(*inputs)
    likes = (getattr(x, name) for name, want in zip(LEARNED, wanted, strict=True) if want)
    return [like.new_empty(like.shape) for like in likes]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.inputs = [None if isinstance(x, Tensor) else x for x in inputs]
    ctx.places = [place for place, x in enumerate(inputs) if isinstance(x, Tensor)]
    out, exact, *rows = output
    tensors = (inputs[place] for place in ctx.places)
    ctx.save_for_backward(exact if _keeps_exact(Inputs(*inputs)) else out, *rows, *tensors)
    ctx.set_materialize_grads(False)


def _keep_of_operator(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _keep(ctx, inputs, output)
    ctx.mark_non_differentiable(*output[1:])


def _gradient(ctx: Any, grad: Tensor | None, *_: Tensor | None) -> tuple[Any, ...]:
    return _gradients(ctx, grad, ctx.needs_input_grad)


def _gradients(ctx: Any, grad: Tensor | None, needs: Sequence[bool]) -> tuple[Tensor | None, ...]:
    """Of each input the gradient, where it needs one."""
    if grad is None:
        return (None,) * len(Inputs._fields)
    exact, peak, mass, *tensors = ctx.saved_tensors
    inputs = list(ctx.inputs)
    for place, tensor in zip(ctx.places, tensors, strict=True):
        inputs[place] = tensor
    needed = dict(zip(Inputs._fields, needs, strict=True))
    wanted = [needed[name] for name in LEARNED]
    # Where its own gradient may be asked for, the operator knows that there is none.
    graph = torch.is_grad_enabled() or torch.compiler.is_compiling() or not plain(grad)
    backward: Any = torch.ops.posenc.attention_backward.default if graph else _backward
    grads = iter(backward(grad, exact, peak, mass, wanted, *inputs))
    return tuple(next(grads) if needed[name] else None for name in Inputs._fields)


class _Attention(torch.autograd.Function):
    """The operator's output with its gradient, for eager calls.

    Autograd is shown the tensors among the inputs alone, for it asks each argument what it is.
    """

    @staticmethod
    def forward(ctx: Any, inputs: tuple[Any, ...], *_: Tensor) -> Tensor:
        output = _forward(*inputs)
        _keep(ctx, inputs, output)
        return output[0]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        needs = [False] * len(Inputs._fields)
        for place, need in zip(ctx.places, ctx.needs_input_grad[1:], strict=True):
            needs[place] = need
        found = _gradients(ctx, grads[0], needs)
        return None, *(found[place] for place in ctx.places)


def _no_second(ctx: Any, *_: Any) -> None:
    raise UnsupportedError(
        "attend(backend='native') has no gradient of its gradient: "
        "use backend='reference' where create_graph=True"
    )


_OPERATORS = torch.library.Library("posenc", "FRAGMENT")
_OPERATORS.define(f"attention({SCHEMA}) -> (Tensor, Tensor, Tensor, Tensor)")
_OPERATORS.define(
    "attention_backward(Tensor grad, Tensor exact, Tensor peak, Tensor mass, bool[] wanted, "
    f"{SCHEMA}) -> Tensor[]"
)
_OPERATORS.impl("attention", _forward, "CPU")
_OPERATORS.impl("attention_backward", _backward, "CPU")
torch.library.register_fake("posenc::attention", _outputs, lib=_OPERATORS)
torch.library.register_fake("posenc::attention_backward", _fake_backward, lib=_OPERATORS)
torch.library.register_autograd(
    "posenc::attention", _gradient, setup_context=_keep_of_operator, lib=_OPERATORS
)
torch.library.register_autograd("posenc::attention_backward", _no_second, lib=_OPERATORS)
