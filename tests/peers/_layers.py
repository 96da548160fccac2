"""What peers that are whole attention layers share."""

import torch
from torch import Tensor, nn


def split(x: Tensor, heads: int) -> Tensor:
    """(b, t, h * d) as (b, h, t, d)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def joined(x: Tensor) -> Tensor:
    """(b, h, t, d) as (b, t, h * d)."""
    return x.transpose(1, 2).flatten(-2)


def set_alike(ours: nn.Parameter, theirs: Tensor) -> tuple[Tensor, Tensor]:
    """Fill the peer's parameter and carry it over; the pair is one entry of `Case.weights`."""
    with torch.no_grad():
        theirs.normal_()
        ours.copy_(theirs.reshape(ours.shape))
    return ours, theirs


def causal_mask(length: int, causal: bool) -> Tensor:
    """The additive mask (1, 1, t, t) that layers of transformers take from outside."""
    mask = torch.zeros(1, 1, length, length, dtype=torch.float64)
    return mask.masked_fill(torch.ones(length, length).triu(1) > 0, -torch.inf) if causal else mask
