"""Attention by the C kernels, as two operators with fake and autograd rules, which graphs hold.

posenc::attention returns the output and what its gradient needs: the output before it was rounded
(empty where it is not), and of each row the greatest score in units of log 16, the peak, and the
sum of the weights relative to it, the mass. posenc::attention_backward returns the gradients that
are wanted, in the order of the inputs. Eager calls take the kernels straight, for a dispatcher
costs more than attention between a few tokens; who may not know which it will be imports this.
"""

from typing import Any

import torch
from torch import Tensor

from posenc.errors import UnsupportedError
from posenc.native.aliasing import like_rows
from posenc.native.attention import (
    PLACES,
    attend,
    backward,
    forward,
    gradients,
    keep,
    outputs,
    rows_contiguous,
)
from posenc.native.attention_lse import attend_with_lse
from posenc.native.attention_struct import BY_ROWS, LEARNED, SCHEMA, Inputs

__all__ = ["Inputs", "attend", "attend_with_lse"]


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
        like_rows(rows_contiguous(like)) if name in BY_ROWS else like.new_empty(like.shape)
        for name, like in likes
    ]


def _keep_of_operator(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    keep(ctx, inputs, [place for place in PLACES if inputs[place] is not None], output)
    ctx.mark_non_differentiable(*output[1:3])


def _gradient(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
    found = gradients(ctx, grads, ctx.needs_input_grad)
    return tuple(found.get(place) for place in range(len(Inputs._fields)))


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
_OPERATORS.impl("attention", forward, "CPU")
_OPERATORS.impl("attention_backward", backward, "CPU")
torch.library.register_fake("posenc::attention", outputs, lib=_OPERATORS)
torch.library.register_fake("posenc::attention_backward", _fake_backward, lib=_OPERATORS)
torch.library.register_autograd(
    "posenc::attention", _gradient, setup_context=_keep_of_operator, lib=_OPERATORS
)
torch.library.register_autograd("posenc::attention_backward", _no_second, lib=_OPERATORS)
