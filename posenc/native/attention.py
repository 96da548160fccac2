"""Attention with position terms by the C kernels, as two operators with fake and autograd rules.

posenc::attention returns the output and what its gradient needs: the output before it was rounded
(empty where it is not), and of each row the greatest score in units of log 16 and the sum of the
weights relative to it. posenc::attention_backward returns
the gradients that are wanted, in the order of the inputs.
"""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from posenc.errors import UnsupportedError
from posenc.native.attention_call import backward, forward
from posenc.native.attention_struct import Inputs
from posenc.native.library import LIBRARY

# The inputs that can have a gradient come first.
_LEARNED = 13
_INPUTS = (
    "Tensor q, Tensor k, Tensor v, Tensor? table, Tensor? past, Tensor? future, "
    "Tensor? q_offset, Tensor? k_offset, Tensor? query_rows, Tensor? key_rows, "
    "Tensor? value_rows, Tensor? query_bias, Tensor? key_bias, Tensor? q_order, "
    "Tensor? k_order, Tensor? q_document, Tensor? k_document, Tensor? valid, "
    "SymInt table_zero, SymInt query_zero, SymInt key_zero, SymInt value_zero, "
    "float scale, bool causal, SymInt window, SymInt sinks, SymInt prefix, "
    "bool learns"
)


def attend(inputs: Inputs) -> Tensor:
    """The output of these inputs, (b, h, tq, d_v), by the operator."""
    # Not vars(inputs), which graphs of torch 2.7 cannot follow.
    *values, _ = [getattr(inputs, field.name) for field in fields(inputs)]
    learns = any(isinstance(x, Tensor) and x.requires_grad for x in values)
    return torch.ops.posenc.attention.default(*values, learns and torch.is_grad_enabled())[0]


def _forward(*given: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    if isinstance(LIBRARY, str):
        raise UnsupportedError(f"posenc::attention: {LIBRARY}")
    return forward(LIBRARY, Inputs(*given))


def _fake_forward(*given: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    x = Inputs(*given)
    rows = x.q.shape[:3]
    out = x.q.new_empty(*rows, x.v.shape[3])
    peak, mass = (x.q.new_empty(rows, dtype=x.arithmetic) for _ in range(2))
    exact = x.q.new_empty(out.shape if x.keeps_exact else 0, dtype=x.arithmetic)
    return out, exact, peak, mass


def _backward(
    grad: Tensor, exact: Tensor, peak: Tensor, mass: Tensor, wanted: list[bool], *given: Any
) -> list[Tensor]:
    if isinstance(LIBRARY, str):
        raise UnsupportedError(f"posenc::attention_backward: {LIBRARY}")
    x = Inputs(*given)
    made = backward(LIBRARY, x, (exact, peak, mass), grad, wanted)
    found = []
    for name, like in _wanted(x, wanted):
        found.append(made[name].to(like.dtype))
    return found


def _fake_backward(
    grad: Tensor, exact: Tensor, peak: Tensor, mass: Tensor, wanted: list[bool], *given: Any
) -> list[Tensor]:
    return [like.new_empty(like.shape) for _, like in _wanted(Inputs(*given), wanted)]


def _wanted(x: Inputs, wanted: list[bool]) -> Iterator[tuple[str, Tensor]]:
    for want, (name, given) in zip(wanted, vars(x).items(), strict=False):
        if want:
            yield name, given


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    tensors = [x for x in inputs if isinstance(x, Tensor)]
    ctx.inputs = [None if isinstance(x, Tensor) else x for x in inputs]
    ctx.tensor = [isinstance(x, Tensor) for x in inputs]
    out, exact, *rows = output
    ctx.save_for_backward(exact if Inputs(*inputs).keeps_exact else out, *rows, *tensors)
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)


def _gradient(ctx: Any, grad: Tensor | None, *_: Tensor | None) -> tuple[Any, ...]:
    none = [None] * len(ctx.inputs)
    if grad is None:
        return tuple(none)
    exact, peak, mass, *tensors = ctx.saved_tensors
    rest = iter(tensors)
    given = [next(rest) if tensor else x for tensor, x in zip(ctx.tensor, ctx.inputs, strict=True)]
    wanted = list(ctx.needs_input_grad[:_LEARNED])
    backward = torch.ops.posenc.attention_backward.default
    found = iter(backward(grad, exact, peak, mass, wanted, *given))
    grads = [next(found) if want else None for want in wanted]
    return (*grads, *none[_LEARNED:])


def _no_second(ctx: Any, *_: Any) -> None:
    raise UnsupportedError(
        "attend(backend='native') has no gradient of its gradient: "
        "use backend='reference' where create_graph=True"
    )


_OPERATORS = torch.library.Library("posenc", "FRAGMENT")
_OPERATORS.define(f"attention({_INPUTS}) -> (Tensor, Tensor, Tensor, Tensor)")
_OPERATORS.define(
    "attention_backward(Tensor grad, Tensor exact, Tensor peak, Tensor mass, bool[] wanted, "
    f"{_INPUTS}) -> Tensor[]"
)
_OPERATORS.impl("attention", _forward, "CPU")
_OPERATORS.impl("attention_backward", _backward, "CPU")
torch.library.register_fake("posenc::attention", _fake_forward, lib=_OPERATORS)
torch.library.register_fake("posenc::attention_backward", _fake_backward, lib=_OPERATORS)
torch.library.register_autograd("posenc::attention", _gradient, setup_context=_keep, lib=_OPERATORS)
torch.library.register_autograd("posenc::attention_backward", _no_second, lib=_OPERATORS)
