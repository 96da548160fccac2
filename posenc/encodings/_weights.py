"""What encodings share that multiply by weights of their own."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from posenc.errors import SettingError, given, whole


def head_dim_of(owner: str, dim: int, heads: int, head_dim: int | None) -> int:
    """`head_dim`, or dim // heads where it is None; SettingError where that leaves a rest."""
    whole(owner, dim=dim, heads=heads, **given(head_dim=head_dim))
    if head_dim is None and dim % heads:
        raise SettingError(
            f"{owner}(dim={dim}, heads={heads}): dim is not a multiple of heads; give head_dim"
        )
    return dim // heads if head_dim is None else head_dim


class Affine(nn.Module):
    """The weights of nn.Linear, drawn alike, for who reads them and never calls the layer.

    What looks for layers to adapt, as peft's "all-linear" does, must find none here.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        drawn = nn.Linear(inputs, outputs)
        self.weight, self.bias = drawn.weight, drawn.bias


def linear_in_dtype(x: Float[Tensor, "*n c"], layer: nn.Linear | Affine) -> Float[Tensor, "*n e"]:
    """The layer's map of x in x's dtype, whatever that of its weights."""
    bias = None if layer.bias is None else layer.bias.to(x.dtype)
    return F.linear(x, layer.weight.to(x.dtype), bias)
