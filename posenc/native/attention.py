"""Attention with position terms by the C kernels, eager: operators are `attention_operators`.

Of each row a call keeps the greatest score in units of log 16, the peak, and the sum of the weights
relative to it, the mass, a sink among both. The mass has a gradient, as if the peak were a
constant: of their log, that is the whole.
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
    PACK_TERMS,
    PACK_TOKENS,
    CallStruct,
    Inputs,
    Steps,
)
from posenc.native.gradient_sums import added_up, by_rows, share, sums_of
from posenc.native.library import LIBRARY, TYPES, Library
from posenc.torch_modes import arithmetic, batched, plain, threads

# What the fields of a tensor hold, by the ends of their names. A step is between rows of the batch:
# 0 where one row is for all, (t,), (1, t) or (1, h, t).
HELD: dict[tuple[str, ...], Callable[[Tensor], tuple[int, ...]]] = {
    ("", "_stride"): lambda x: (x.data_ptr(), *x.stride()[:3]),
    ("", "_grad", "_heads", "_rows"): lambda x: (x.data_ptr(), 0, *x.shape[:2]),
    ("", "_grad", "_steps"): lambda x: (x.data_ptr(), 0, x.shape[3]),
    ("",): lambda x: (x.data_ptr(),),
    ("", "_units"): lambda x: (x.data_ptr(), x.shape[1]),
    ("", "_step"): lambda x: (x.data_ptr(), x.stride(0) if x.ndim > 1 and x.shape[0] > 1 else 0),
}
# Of each input but q, k and v what its fields hold, None for a number, and what they do where no
# tensor is given.
_FIELDS = tuple(
    (HELD[KINDS[name].fields], (0,) * (4 if name in BY_ROWS else len(KINDS[name].fields)))
    if name in KINDS
    else (None, ())
    for name in Inputs._fields[3:]
)
PLACES = tuple(place for place, name in enumerate(Inputs._fields) if name in KINDS)
_ROWS = tuple(place for place in PLACES if Inputs._fields[place] in BY_ROWS)
_WHOLE = tuple(place for place in PLACES if place not in _ROWS)
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
        return Attention.apply((*values, learns), places, *tensors)
    out, x = room_for_output(inputs.q, inputs.v), readable(inputs)
    fill(_struct_of(x), x.q, out)
    return out


def outputs(*inputs: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """out (b, h, tq, d_v), the same before rounding or nothing; peak and mass of each row."""
    x = Inputs(*inputs)
    out = room_for_output(x.q, x.v)
    exact = torch.empty_like(out, dtype=arithmetic(x.q)) if _keeps_exact(x) else x.q.new_empty(0)
    peak, mass = (x.q.new_empty(x.q.shape[:3], dtype=arithmetic(x.q)) for _ in range(2))
    return out, exact, peak, mass


def forward(*inputs: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`outputs`, filled."""
    made = outputs(*inputs)
    x = readable(Inputs(*inputs))
    fill(_struct_of(x), x.q, made[0], *(x.data_ptr() if x.numel() else 0 for x in made[1:]))
    return made


def backward(
    grad: Tensor,
    grad_mass: Tensor | None,
    exact: Tensor,
    peak: Tensor,
    mass: Tensor,
    wanted: Sequence[bool],
    *inputs: Any,
) -> list[Tensor]:
    """The gradients that are wanted of `LEARNED`, in its order, from what `forward` kept."""
    x = readable(Inputs(*inputs))
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
    run(call, x.q, scratch_of(call, x.q), own_rows=False)

    grads |= {name: added_up(t, getattr(x, name)) for name, t in sums.items()}
    return [grads[name] for name in LEARNED if name in want]


def _keeps_exact(x: Inputs) -> bool:
    """Whether the output is kept as it was before rounding too."""
    return x.learns and x.q.dtype != arithmetic(x.q)


def _struct_of(x: Inputs) -> CallStruct:
    return CallStruct.from_buffer_copy(packed_tokens(x.q, x.k, x.v) + packed_terms(x))


def room_for_output(q: Tensor, v: Tensor) -> Tensor:
    """(b, h, tq, d_v), with heads inside of tokens where q has them so.

    A layer that turned them to the outside by a view then turns them back by one.
    """
    batch, heads, tokens, _ = q.shape
    _, by_head, by_token, _ = q.stride()
    if by_head < by_token:
        return q.new_empty(batch, tokens, heads, v.shape[3]).transpose(1, 2)
    return q.new_empty(batch, heads, tokens, v.shape[3])


def packed_tokens(q: Tensor, k: Tensor, v: Tensor) -> bytes:
    """The sizes of a call with q, k and v, whose rows are contiguous."""
    batch, heads, queries, width = q.shape
    _, key_heads, keys, value_width = v.shape
    sizes = (batch, heads, key_heads, queries, keys, width, value_width)
    (q0, q1, q2, _), (k0, k1, k2, _), (v0, v1, v2, _) = q.stride(), k.stride(), v.stride()
    rows = (q.data_ptr(), q0, q1, q2, k.data_ptr(), k0, k1, k2, v.data_ptr(), v0, v1, v2)
    return PACK_TOKENS(TYPES[q.dtype], 0, *sizes, *rows)


def packed_terms(x: Inputs) -> bytes:
    """All inputs but q, k and v, which are readable."""
    values: tuple[Any, ...] = x
    fields: list[Any] = []
    for value, (held, absent) in zip(values[3:], _FIELDS, strict=True):
        if value is None:
            fields += absent
        elif held is None:
            fields.append(value)
        else:
            fields += held(value)
    return PACK_TERMS(*fields)


def readable(x: Inputs) -> Inputs:
    """The same tensors, laid out as the kernel reads them."""
    values: tuple[Any, ...] = x
    by_rows = [p for p in _ROWS if values[p] is not None and values[p].stride(3) != 1]
    whole = [p for p in _WHOLE if values[p] is not None and not values[p].is_contiguous()]
    laid_out = {Inputs._fields[place]: values[place].contiguous() for place in (*by_rows, *whole)}
    return x._replace(**laid_out) if laid_out else x


def rows_contiguous(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 else x.contiguous()


def fill(
    call: CallStruct, q: Tensor, out: Tensor, exact: int = 0, peak: int = 0, mass: int = 0
) -> None:
    """Write the outputs, of all but the first the addresses; 0 for what is not wanted."""
    complete(call, q, out)
    if peak:
        call.exact_out, call.peak, call.mass = exact, peak, mass
    run(call, q, scratch_of(call, q), own_rows=not peak)


def complete(call: CallStruct, q: Tensor, out: Tensor) -> None:
    """Write where the output goes, and how many workers compute it."""
    call.out, call.out_stride[:] = out.data_ptr(), out.stride()[:3]
    batch, heads, queries, _ = q.shape
    call.workers = max(1, min(threads(), batch * heads * -(-queries // 256)))
    call.chunks = call.slots = 1


def scratch_of(call: CallStruct, q: Tensor) -> int:
    """How many bytes the kernel works in, wherever the tensors of the call may be."""
    kernels, double = _library().kernels, q.dtype == torch.float64
    scratch = kernels.pe_attention_double_scratch if double else kernels.pe_attention_float_scratch
    return scratch(ctypes.addressof(call))


def run(call: CallStruct, q: Tensor, size: int, own_rows: bool) -> None:
    """Run the kernel in so many bytes, and in more for peak and mass of rows that nobody asks."""
    kernels, double, rows = _library().kernels, q.dtype == torch.float64, 0
    if own_rows:
        batch, heads, queries, _ = q.shape
        rows = batch * heads * queries * (8 if double else 4)
    # Where q is, whatever the default device may be.
    memory = q.new_empty(size + 2 * rows, dtype=torch.uint8)
    start = call.memory = memory.data_ptr()
    if own_rows:
        call.peak, call.mass = start + size, start + size + rows
    (kernels.pe_attention_double if double else kernels.pe_attention_float)(ctypes.addressof(call))


def _library() -> Library:
    if isinstance(LIBRARY, str):
        raise UnsupportedError(f"posenc::attention: {LIBRARY}")
    return LIBRARY


def keep(ctx: Any, inputs: tuple[Any, ...], places: list[int], output: tuple[Tensor, ...]) -> None:
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


def gradients(
    ctx: Any, grads: Sequence[Tensor | None], needs: Sequence[bool] | dict[int, bool]
) -> dict[int, Tensor]:
    """Of the inputs at places that need one the gradient."""
    # Of the output, and of the mass where that is given out too.
    grad, grad_mass = grads[0], grads[-1] if len(grads) > 1 else None
    if grad is None and grad_mass is None:
        return {}
    if batched(grad, grad_mass):
        raise UnsupportedError(
            "attend(backend='native') computes one gradient at a time, and no batch of them: use "
            "backend='reference' where is_grads_batched=True or vmap goes around autograd.grad"
        )
    exact, peak, mass, *tensors = ctx.saved_tensors
    grad = torch.zeros_like(exact) if grad is None else grad
    inputs = list(ctx.inputs)
    for place, tensor in zip(ctx.places, tensors, strict=True):
        inputs[place] = tensor
    learned = [place for place in _LEARNED if inputs[place] is not None and needs[place]]
    wanted = [place in learned for place in _LEARNED]
    # Where its own gradient may be asked for, the operator knows that there is none.
    graph = torch.is_grad_enabled() or torch.compiler.is_compiling() or not plain(grad)
    run_backward: Any = torch.ops.posenc.attention_backward.default if graph else backward
    made = run_backward(grad, grad_mass, exact, peak, mass, wanted, *inputs)
    return dict(zip(learned, made, strict=True))


class Attention(torch.autograd.Function):
    """The operator's output with its gradient, for eager calls.

    Autograd is shown the tensors among the inputs alone, for it asks each argument what it is.
    """

    @staticmethod
    def forward(ctx: Any, inputs: tuple[Any, ...], places: list[int], *_: Tensor) -> Tensor:
        output = forward(*inputs)
        keep(ctx, inputs, places, output)
        return output[0]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        needs = dict(zip(ctx.places, ctx.needs_input_grad[2:], strict=True))
        found = gradients(ctx, grads, needs)
        return None, None, *(found.get(place) for place in ctx.places)
