"""Explicit coordinates, such as position_ids."""

import math

import torch
from torch import Tensor

from posenc.errors import PositionsError
from posenc.positions.tokens import reading_values


def whole_or_double(coordinates: Tensor) -> Tensor:
    """Coordinates as int64 or float64; half precision has lost the odd ones beyond 256 or 2048."""
    if coordinates.ndim not in (1, 2, 3):
        raise PositionsError(
            f"positions of shape {tuple(coordinates.shape)}: (t,), (b, t) or (b, t, axes) is needed"
        )
    if coordinates.dtype in (torch.bfloat16, torch.float16):
        raise PositionsError(
            f"positions of dtype {coordinates.dtype} are rounded already: "
            "positions are int64 or float64, never the activations' dtype"
        )
    if coordinates.dtype == torch.bool or coordinates.is_complex():
        raise PositionsError(
            f"positions of dtype {coordinates.dtype}: int64 or float64 are needed; a mask of real "
            "tokens goes to Positions.build(attention_mask=...)"
        )
    return coordinates.double() if coordinates.is_floating_point() else coordinates.long()


def extent_of(ids: Tensor) -> int | None:
    """A bound on ids + 1; None where a traced graph may not read them."""
    if not reading_values() or ids.numel() == 0:
        return None
    if ids.is_floating_point() and not torch.isfinite(ids).all():
        raise PositionsError("Positions.build(ids=...): ids must be finite")
    least, largest = (value.item() for value in ids.aminmax())
    if least < 0:
        raise PositionsError(
            f"Positions.build(ids=...): the smallest id is {least}: ids must be >= 0"
        )
    return math.ceil(largest) + 1
