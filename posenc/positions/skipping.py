"""Positions that skip ahead between chunks, so that a short input spans a long one."""

import torch
from jaxtyping import Int
from torch import Tensor

from posenc.errors import PositionsError
from posenc.positions.randomised import sorted_subsets, uniform


def skipping(
    order: Int[Tensor, "b t"],
    real: Int[Tensor, "b 1"],
    longest: int,
    chunks: int,
    generator: torch.Generator | None,
) -> Int[Tensor, "b t"]:
    """Order plus the skip of the chunk that a token is in; rows shorter than chunks have fewer."""
    length = order.shape[1]
    if not 1 <= chunks <= length <= longest:
        raise PositionsError(
            f"Positions.skipping(longest={longest}, chunks={chunks}) of {length} tokens: "
            "1 <= chunks <= tokens <= longest is needed"
        )
    at, skip = order, torch.zeros_like(real)
    cuts = 1 + sorted_subsets(
        (real - 1).clamp(0, chunks - 1), (real - 1).clamp(min=0), chunks - 1, length, generator
    )
    for chunk in range(chunks - 1):
        # u[i] is uniform over u[i - 1] .. longest - tokens.
        step = (
            uniform((real.shape[0], 1), generator, real.device) * (longest - real - skip + 1)
        ).long()
        at = at + step * (order >= cuts[:, chunk : chunk + 1])
        skip = skip + step
    return at
