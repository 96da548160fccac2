"""Coordinates as models of transformers take them: a plane for each axis."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from posenc.errors import PositionsError

if TYPE_CHECKING:
    from posenc.positions.positions import Positions


def planes(self: "Positions", order: bool = False) -> Tensor:
    """The queries' coordinates as (axes, b, t), which is position_ids of Qwen's VL models.

    With order, a plane stands before them that counts the tokens of each document: (1 + axes, b,
    t). Where a row packs documents, transformers reads off that plane, and off no other, which
    tokens are in one, and only if no attention_mask is given.

    Example: `Positions.mrope(types, grids, documents=of).planes(order=True)`.

    Raises PositionsError for positions of one coordinate per token.
    """
    at = self.queries.position
    if at.ndim < 3:
        raise PositionsError(
            f"Positions.planes: positions of shape {tuple(at.shape)} have one coordinate per "
            "token; make them by Positions.mrope, or expand them yourself"
        )
    axes = at.movedim(-1, 0)
    if not order:
        return axes
    index = self.orders()[0].to(axes.dtype).expand(axes.shape[1:])
    return torch.cat((index[None], axes))
