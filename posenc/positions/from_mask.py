"""Padding, read from an attention mask."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from posenc.errors import PositionsError
from posenc.positions.tokens import check_tensors, reading_values


def from_mask(
    attention_mask: Tensor, call: str = "Positions.build"
) -> tuple[Bool[Tensor, "b t"], Int[Tensor, "b t"]]:
    """Which tokens are real, and the order of each: real tokens count from 0.

    Raises PositionsError for another shape, an additive mask, and a row with a hole.
    """
    check_tensors(call, attention_mask=attention_mask)
    call = f"{call}(attention_mask=...)"
    if attention_mask.ndim != 2 or attention_mask.shape[1] == 0:
        raise PositionsError(
            f"{call} has shape {tuple(attention_mask.shape)}: "
            "(b, k_len) is needed, nonzero for real tokens"
        )
    valid = attention_mask.bool()
    # In place, for a fresh tensor costs as much as the sums; from -1, so that tokens count from 0.
    order = valid.long()
    order[:, 0] -= 1
    order = order.cumsum_(-1)
    if not reading_values():
        return valid, order.clamp_(min=0)
    # Whole numbers too, for (1 - mask) * -10000 of such a mask has them; NaN is not 0 or more.
    signed = attention_mask.dtype.is_signed and attention_mask.numel()
    if signed and not bool(attention_mask.min() >= 0):
        raise PositionsError(
            f"{call} has negative values or NaN, as a mask that is added to scores: "
            "give the mask it was made from, nonzero for real tokens, or mask >= 0"
        )
    first, end = real_span(valid)
    holes = end - first != order[:, -1] + 1
    if holes.any():
        raise PositionsError(
            f"{call}: row {int(holes.nonzero()[0])} has a hole: real tokens must be "
            "contiguous, with padding on the left or on the right. To decode after a padded "
            "prompt, pad it on the left, or use Positions.static with `past` of each row"
        )
    return valid, order if bool(valid[:, 0].all()) else order.clamp_(min=0)


def real_span(valid: Bool[Tensor, "b t"]) -> tuple[Int[Tensor, "b"], Int[Tensor, "b"]]:
    """Where the real tokens of each row begin, and where they end; 0 and 0 where there are none."""
    # argmax over bytes, because a sum would first widen each to an int64.
    first, behind = (x.byte().argmax(-1) for x in (valid, valid.flip(-1)))
    return first, torch.where(valid.any(-1), valid.shape[1] - behind, first)
