"""Positions that skip ahead between chunks, so that a short input spans a long one."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from posenc.errors import PositionsError
from posenc.positions.drawing import drawn, rows_to_draw, sorted_subsets, uniform
from posenc.positions.tokens import check_whole

P = TypeVar("P")


def skipping(
    make: Callable[..., P],
    length: int | None = None,
    *,
    longest: int,
    chunks: int = 2,
    batch: int | None = None,
    attention_mask: Tensor | None = None,
    causal: bool = False,
    generator: torch.Generator | None = None,
    device: torch.device | str | None = None,
) -> P:
    """Positions that skip ahead between chunks, so that a short input spans a long one.

        position[i] = i + u[chunk of i],   u[0] = 0,   u[n] ~ U{u[n - 1] .. longest - length}

    Chunks begin at a uniform choice of tokens. Arguments are those of `random`.

    Example: `Positions.skipping(16, longest=128, chunks=2)`.

    Raises PositionsError unless 1 <= chunks <= length <= longest.
    Source: Zhu et al. 2024 (PoSE), arXiv:2309.10400, section 3.2.
    """
    check_whole("Positions.skipping", length=length, longest=longest, batch=batch, chunks=chunks)
    order, real = rows_to_draw(
        "Positions.skipping", length, batch, attention_mask, generator, device
    )
    tokens = order.shape[1]
    if not 1 <= chunks <= tokens <= longest:
        raise PositionsError(
            f"Positions.skipping(longest={longest}, chunks={chunks}) of {tokens} tokens: "
            "1 <= chunks <= tokens <= longest is needed"
        )
    ids, skip = order, torch.zeros_like(real)
    cuts = 1 + sorted_subsets(
        (real - 1).clamp(0, chunks - 1), (real - 1).clamp(min=0), chunks - 1, tokens, generator
    )
    for chunk in range(chunks - 1):
        # u[i] is uniform over u[i - 1] .. longest - tokens.
        step = (
            uniform((real.shape[0], 1), generator, real.device) * (longest - real - skip + 1)
        ).long()
        ids = ids + step * (order >= cuts[:, chunk : chunk + 1])
        skip = skip + step
    return drawn(make, ids, batch, attention_mask, longest, causal)
