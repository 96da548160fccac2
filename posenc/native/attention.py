"""Attention with position terms by the C kernels, as two operators with fake and autograd rules.

posenc::attention returns the output and what its gradient needs: the output before it was rounded
(empty where it is not), and of each row the greatest score in units of log 16 and the sum of the
weights relative to it. posenc::attention_backward returns
the gradients that are wanted, in the order of the inputs.
"""

from typing import Any

import torch
from torch import Tensor

from posenc.errors import UnsupportedError
from posenc.native.attention_struct import LEARNED, NAMES, SCHEMA, Inputs
from posenc.native.launch import backward, forward
from posenc.native.library import LIBRARY


def attend(inputs: Inputs) -> Tensor:
    """The output of these inputs, (b, h, tq, d_v), by the operator."""
    # Not vars(inputs), which graphs of torch 2.7 cannot follow.
    *values, _ = [getattr(inputs, name) for name in NAMES]
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
    return backward(LIBRARY, Inputs(*given), (exact, peak, mass), grad, wanted)


def _fake_backward(
    grad: Tensor, exact: Tensor, peak: Tensor, mass: Tensor, wanted: list[bool], *given: Any
) -> list[Tensor]:
    x = Inputs(*given)
    likes = (getattr(x, name) for name, want in zip(LEARNED, wanted, strict=True) if want)
    return [like.new_empty(like.shape) for like in likes]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    tensors = [x for x in inputs if isinstance(x, Tensor)]
    ctx.inputs = [None if isinstance(x, Tensor) else x for x in inputs]
    ctx.tensor = [isinstance(x, Tensor) for x in inputs]
    out, exact, *rows = output
    ctx.save_for_backward(exact if Inputs(*inputs).keeps_exact else out, *rows, *tensors)
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)


def _gradient(ctx: Any, grad: Tensor | None, *_: Tensor | None) -> tuple[Any, ...]:
    if grad is None:
        return (None,) * len(NAMES)
    exact, peak, mass, *tensors = ctx.saved_tensors
    rest = iter(tensors)
    given = [next(rest) if tensor else x for tensor, x in zip(ctx.tensor, ctx.inputs, strict=True)]
    needed = dict(zip(NAMES, ctx.needs_input_grad, strict=True))
    wanted = [needed[name] for name in LEARNED]
    backward = torch.ops.posenc.attention_backward.default
    found = iter(backward(grad, exact, peak, mass, wanted, *given))
    return tuple(next(found) if needed[name] else None for name in NAMES)


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
torch.library.register_fake("posenc::attention", _fake_forward, lib=_OPERATORS)
torch.library.register_fake("posenc::attention_backward", _fake_backward, lib=_OPERATORS)
torch.library.register_autograd("posenc::attention", _gradient, setup_context=_keep, lib=_OPERATORS)
torch.library.register_autograd("posenc::attention_backward", _no_second, lib=_OPERATORS)
