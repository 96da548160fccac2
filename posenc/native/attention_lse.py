"""Attention by the C kernels with the log of the sum of each row beside the output."""

import math
from typing import Any

import torch
from torch import Tensor

from posenc.native.attention import PLACES, Attention, forward, keep
from posenc.native.attention_struct import Inputs
from posenc.torch_modes import plain


def attend_with_lse(inputs: Inputs) -> tuple[Tensor, Tensor]:
    """The output, and of each row the log of the sum of exp(score), (b, h, tq)."""
    *values, _ = inputs
    places = [place for place in PLACES if values[place] is not None]
    tensors: list[Any] = [values[place] for place in places]
    learns = torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
    if torch.compiler.is_compiling() or not plain(*tensors):
        out, _, peak, mass = torch.ops.posenc.attention.default(*values, learns)
    elif learns:
        out, _, peak, mass = AttentionAndMass.apply((*values, learns), places, *tensors)
    else:
        out, _, peak, mass = forward(*inputs)
    # Of a row that sees nothing the peak is -inf.
    return out, peak * math.log(16) + mass.masked_fill(mass == 0, 1.0).log()


class AttentionAndMass(Attention):
    """`Attention` with all that the operator returns, for who asks for the log of the sum."""

    @staticmethod
    def forward(ctx: Any, inputs: tuple[Any, ...], places: list[int], *_: Tensor) -> Any:
        output = forward(*inputs)
        keep(ctx, inputs, places, output)
        ctx.mark_non_differentiable(*output[1:3])
        return output
