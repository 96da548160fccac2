"""Attention with position terms by the C kernels, as two operators with fake and autograd rules.

posenc::attention returns the output and what its gradient needs: the output before it was rounded
(empty where it is not), and of each row the greatest score in units of log 16, the peak, and the
sum of the weights relative to it, the mass. posenc::attention_backward returns the gradients that
are wanted, in the order of the inputs. Graphs hold the operators, eager calls take the kernels
straight, for a dispatcher costs more than attention between a few tokens.

The mass has a gradient, as if the peak were a constant: of their log, that is the whole.
"""

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from posenc.errors import UnsupportedError
from posenc.native.attention_layout import (
    PLACES,
    packed_terms,
    packed_tokens,
    readable,
    room_for_output,
    rows_contiguous,
)
from posenc.native.attention_struct import BY_ROWS, LEARNED, SCHEMA, CallStruct, Inputs, Steps
from posenc.native.gradient_sums import added_up, by_rows, share, sums_of
from posenc.native.library import LIBRARY, Library
from posenc.torch_modes import arithmetic, plain, threads

_LEARNED = tuple(Inputs._fields.index(name) for name in LEARNED)


def attend(inputs: Inputs) -> Tensor:
    """The output of these inputs, (b, h, tq, d_v)."""
    *values, _ = inputs
    places = [place for place in PLACES if values[place] is not None]
    tensors: list[Any] = [values[place] for place in places]
    learns = torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
    if torch.compiler.is_compiling() or not plain(*tensors):
        return torch.ops.posenc.attention.default(*values, learns)[0]
    if learns:
        return _Attention.apply((*values, learns), places, *tensors)
    out, x = room_for_output(inputs.q, inputs.v), readable(inputs)
    fill(_struct_of(x), x.q, out)
    return out


def attend_with_lse(inputs: Inputs) -> tuple[Tensor, Tensor]:
    """The output, and of each row the log of the sum of exp(score), (b, h, tq)."""
    *values, _ = inputs
    places = [place for place in PLACES if values[place] is not None]
    tensors: list[Any] = [values[place] for place in places]
    learns = torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
    if torch.compiler.is_compiling() or not plain(*tensors):
        out, _, peak, mass = torch.ops.posenc.attention.default(*values, learns)
    elif learns:
        out, _, peak, mass = _AttentionAndMass.apply((*values, learns), places, *tensors)
    else:
        out, _, peak, mass = _forward(*inputs)
    # Of a row that sees nothing the peak is -inf.
    return out, peak * math.log(16) + mass.masked_fill(mass == 0, 1.0).log()


def _outputs(*inputs: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """out (b, h, tq, d_v), the same before rounding or nothing; peak and mass of each row."""
    x = Inputs(*inputs)
    out = room_for_output(x.q, x.v)
    exact = torch.empty_like(out, dtype=arithmetic(x.q)) if _keeps_exact(x) else x.q.new_empty(0)
    peak, mass = (x.q.new_empty(x.q.shape[:3], dtype=arithmetic(x.q)) for _ in range(2))
    return out, exact, peak, mass


def _forward(*inputs: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`_outputs`, filled."""
    outputs = _outputs(*inputs)
    x = readable(Inputs(*inputs))
    fill(_struct_of(x), x.q, outputs[0], *(x.data_ptr() if x.numel() else 0 for x in outputs[1:]))
    return outputs


def fill(
    call: CallStruct, q: Tensor, out: Tensor, exact: int = 0, peak: int = 0, mass: int = 0
) -> None:
    """Write the outputs, of all but the first the addresses; 0 for what is not wanted."""
    call.out, call.out_stride[:] = out.data_ptr(), out.stride()[:3]
    if peak:
        call.exact_out, call.peak, call.mass = exact, peak, mass
    batch, heads, queries, _ = q.shape
    call.workers = max(1, min(threads(), batch * heads * -(-queries // 256)))
    call.chunks = call.slots = 1
    _run(_library(), call, q, own_rows=not peak)


def _backward(
    grad: Tensor,
    grad_mass: Tensor | None,
    exact: Tensor,
    peak: Tensor,
    mass: Tensor,
    wanted: Sequence[bool],
    *inputs: Any,
) -> list[Tensor]:
    """The gradients that are wanted of `LEARNED`, in its order, from what `_forward` kept."""
    library, x = _library(), readable(Inputs(*inputs))
    want = {name for name, is_wanted in zip(LEARNED, wanted, strict=True) if is_wanted}
    grad, exact = rows_contiguous(grad.to(x.q.dtype)), rows_contiguous(exact)
    peak, mass = peak.contiguous(), mass.contiguous()
    call = _struct_of(x)
    call.backward = 1
    call.exact_out, call.peak, call.mass = (t.data_ptr() for t in (exact, peak, mass))
    call.out_stride = Steps(*exact.stride()[:3])
    call.grad_out, call.grad_stride = grad.data_ptr(), Steps(*grad.stride()[:3])
    if grad_mass is not None:
        grad_mass = grad_mass.contiguous()
        call.grad_mass = grad_mass.data_ptr()
    share(call, x, threads())

    grads = by_rows(x, call, want)
    sums = sums_of(x, call, want, arithmetic(x.q))
    for name, t in (grads | sums).items():
        setattr(call, f"{name}_grad", t.data_ptr())
    _run(library, call, x.q, own_rows=False)

    grads |= {name: added_up(t, getattr(x, name)) for name, t in sums.items()}
    return [grads[name] for name in LEARNED if name in want]


def _library() -> Library:
    if isinstance(LIBRARY, str):
        raise UnsupportedError(f"posenc::attention: {LIBRARY}")
    return LIBRARY


def _keeps_exact(x: Inputs) -> bool:
    """Whether the output is kept as it was before rounding too."""
    return x.learns and x.q.dtype != arithmetic(x.q)


def _struct_of(x: Inputs) -> CallStruct:
    return CallStruct.from_buffer_copy(packed_tokens(x.q, x.k, x.v) + packed_terms(x))


def _run(library: Library, call: CallStruct, q: Tensor, own_rows: bool) -> None:
    """Run the kernel, with peak and mass of each row in memory of its own where nobody asks."""
    kernels, double = library.kernels, q.dtype == torch.float64
    scratch = kernels.pe_attention_double_scratch if double else kernels.pe_attention_float_scratch
    kernel = kernels.pe_attention_double if double else kernels.pe_attention_float
    address, rows = ctypes.addressof(call), 0
    size = scratch(address)
    if own_rows:
        batch, heads, queries, _ = q.shape
        rows = batch * heads * queries * (8 if double else 4)
    # Where q is, whatever the default device may be.
    memory = q.new_empty(size + 2 * rows, dtype=torch.uint8)
    start = call.memory = memory.data_ptr()
    if own_rows:
        call.peak, call.mass = start + size, start + size + rows
    kernel(address)


def _fake_backward(
    grad: Tensor,
    grad_mass: Tensor | None,
    exact: Tensor,
    peak: Tensor,
    mass: Tensor,
    wanted: list[bool],
    *inputs: Any,
) -> list[Tensor]:
    x = Inputs(*inputs)
    likes = ((name, getattr(x, name)) for name, want in zip(LEARNED, wanted, strict=True) if want)
    return [
        torch.empty_like(rows_contiguous(like)) if name in BY_ROWS else like.new_empty(like.shape)
        for name, like in likes
    ]


def _keep(ctx: Any, inputs: tuple[Any, ...], places: list[int], output: tuple[Tensor, ...]) -> None:
    """What the gradient needs of this call, whose tensors stand at these places."""
    numbers = list(inputs)
    for place in places:
        numbers[place] = None
    ctx.inputs, ctx.places = numbers, places
    out, exact, *rows = output
    tensors = [inputs[place] for place in places]
    # As many numbers as the output, or none.
    ctx.save_for_backward(exact if exact.ndim == 4 else out, *rows, *tensors)
    ctx.set_materialize_grads(False)


def _keep_of_operator(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _keep(ctx, inputs, [place for place in PLACES if inputs[place] is not None], output)
    ctx.mark_non_differentiable(*output[1:3])


def _gradient(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
    gradients = _gradients(ctx, grads, ctx.needs_input_grad)
    return tuple(gradients.get(place) for place in range(len(Inputs._fields)))


def _gradients(
    ctx: Any, grads: Sequence[Tensor | None], needs: Sequence[bool] | dict[int, bool]
) -> dict[int, Tensor]:
    """Of the inputs at places that need one the gradient."""
    # Of the output, and of the mass where that is given out too.
    grad, grad_mass = grads[0], grads[-1] if len(grads) > 1 else None
    if grad is None and grad_mass is None:
        return {}
    exact, peak, mass, *tensors = ctx.saved_tensors
    grad = torch.zeros_like(exact) if grad is None else grad
    inputs = list(ctx.inputs)
    for place, tensor in zip(ctx.places, tensors, strict=True):
        inputs[place] = tensor
    learned = [place for place in _LEARNED if inputs[place] is not None and needs[place]]
    wanted = [place in learned for place in _LEARNED]
    # Where its own gradient may be asked for, the operator knows that there is none.
    graph = torch.is_grad_enabled() or torch.compiler.is_compiling() or not plain(grad)
    backward: Any = torch.ops.posenc.attention_backward.default if graph else _backward
    made = backward(grad, grad_mass, exact, peak, mass, wanted, *inputs)
    return dict(zip(learned, made, strict=True))


class _Attention(torch.autograd.Function):
    """The operator's output with its gradient, for eager calls.

    Autograd is shown the tensors among the inputs alone, for it asks each argument what it is.
    """

    @staticmethod
    def forward(ctx: Any, inputs: tuple[Any, ...], places: list[int], *_: Tensor) -> Tensor:
        output = _forward(*inputs)
        _keep(ctx, inputs, places, output)
        return output[0]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        needs = dict(zip(ctx.places, ctx.needs_input_grad[2:], strict=True))
        gradients = _gradients(ctx, grads, needs)
        return None, None, *(gradients.get(place) for place in ctx.places)


class _AttentionAndMass(_Attention):
    """The same with all that the operator returns, for who asks for the log of the sum."""

    @staticmethod
    def forward(ctx: Any, inputs: tuple[Any, ...], places: list[int], *_: Tensor) -> Any:
        output = _forward(*inputs)
        _keep(ctx, inputs, places, output)
        ctx.mark_non_differentiable(*output[1:3])
        return output


def _no_second(ctx: Any, *_: Any) -> None:
    raise UnsupportedError(
        "attend(backend='native') has no gradient of its gradient: "
        "use backend='reference' where create_graph=True"
    )


_OPERATORS = torch.library.Library("posenc", "FRAGMENT")
_OPERATORS.define(f"attention({SCHEMA}) -> (Tensor, Tensor, Tensor, Tensor)")
_OPERATORS.define(
    "attention_backward(Tensor grad, Tensor? grad_mass, Tensor exact, Tensor peak, Tensor mass, "
    f"bool[] wanted, {SCHEMA}) -> Tensor[]"
)
_OPERATORS.impl("attention", _forward, "CPU")
_OPERATORS.impl("attention_backward", _backward, "CPU")
torch.library.register_fake("posenc::attention", _outputs, lib=_OPERATORS)
torch.library.register_fake("posenc::attention_backward", _fake_backward, lib=_OPERATORS)
torch.library.register_autograd(
    "posenc::attention", _gradient, setup_context=_keep_of_operator, lib=_OPERATORS
)
torch.library.register_autograd("posenc::attention_backward", _no_second, lib=_OPERATORS)
