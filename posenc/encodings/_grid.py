"""What encodings of rows and columns share: the coordinates of tokens that count row by row."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float64
from torch import Tensor

from posenc.encoding import Encoding
from posenc.errors import PositionsError, SettingError, is_whole, listed

Grid = tuple[int, ...]


def grid_of(owner: str, axes: int, grid: Sequence[int] | None) -> Grid | None:
    """The sizes of the axes as they are kept; SettingError where they are not one for each."""
    if grid is None:
        return None
    sizes = listed(owner, f"{axes} numbers", grid=grid)
    if len(sizes) != axes or not all(is_whole(size) and size >= 1 for size in sizes):
        raise SettingError(
            f"{owner}(axes={axes}, grid={grid!r}): grid gives the size of each axis, "
            f"{axes} numbers >= 1 (int)"
        )
    return sizes


def grid_for(max_length: int) -> Grid:
    """Rows and columns of the smallest grid, nearly a square, that holds as many tokens."""
    width = math.isqrt(max_length - 1) + 1
    return -(-max_length // width), width


def by_axis(owner: Encoding, position: Tensor, grid: Grid | None) -> Tensor:
    """The coordinates (1|b, t, axes) of tokens that have them, or that count row by row.

    Of one axis, tokens simply count.
    """
    axes, kind = owner.axes, type(owner).__name__
    if position.ndim == 3:
        count = position.shape[-1]
        if count != axes:
            made = f", or make it with axes={count}" if "axes" in owner.settings() else ""
            raise PositionsError(
                f"{kind} reads {axes} coordinates per token, but the positions have shape "
                f"{tuple(position.shape)}: give (b, t, {axes}){made}"
            )
        return position
    if axes == 1:
        return position.view(-1, position.shape[-1], 1)
    if grid is None:
        raise PositionsError(
            f"{owner!r} reads {axes} coordinates per token, but the positions have shape "
            f"{tuple(position.shape)}: give Positions.grid(height, width), "
            f"Positions.build(ids=...) of shape (b, t, {axes}), or the encoding the sizes of its "
            "axes, grid=(height, width)"
        )
    index = position.view(-1, position.shape[-1])
    steps = [index // math.prod(grid[axis + 1 :]) for axis in range(axes)]
    # The first axis never wraps, so that tokens beyond the grid have places of their own.
    wrapped = [step % size for step, size in zip(steps[1:], grid[1:], strict=True)]
    return torch.stack([steps[0], *wrapped], dim=-1)


def reference_along(
    positions: Float64[Tensor, "b t *axes"], axis: int, grid: Grid | None
) -> Float64[Tensor, "b t"]:
    """The same coordinate by dividing step by step: for references."""
    if positions.ndim == 3:
        return positions[..., axis]
    if grid is None:
        return positions
    for size in reversed(grid[axis + 1 :]):
        positions = torch.floor(positions / size)
    row = torch.floor(positions / grid[axis]) if axis else 0.0
    return positions - row * grid[axis]
