"""Positions drawn at random from those of a longer sequence, in order."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from posenc.errors import PositionsError
from posenc.positions.drawing import drawn, rows_to_draw, sorted_subsets
from posenc.positions.tokens import check_whole, reading_values

# Numbers of 8 bytes.
MOST = 2**30
P = TypeVar("P")


def random(
    make: Callable[..., P],
    length: int | None = None,
    *,
    longest: int,
    batch: int | None = None,
    attention_mask: Tensor | None = None,
    causal: bool = False,
    generator: torch.Generator | None = None,
    device: torch.device | str | None = None,
) -> P:
    """Random positions in order: a short input trains those of a long one.

    Each row gets a uniform subset of 0 .. longest - 1, sorted, as large as it has tokens.

    length          the number of tokens, where no attention_mask tells
    longest         one more than the largest position, the length to be ready for
    batch           how many rows draw of their own; None: one draw for all of them
    attention_mask  (b, length): rows draw of their own, for their real tokens
    generator       where the numbers come from: torch.Generator().manual_seed(seed)

    Example: `Positions.random(16, longest=128)`.

    Raises PositionsError for longest < length, and for more than fits a memory, 2**30 in all rows.
    Source: Ruoss et al. 2023, arXiv:2305.16843, section 3; their positions count from 1.
    """
    check_whole("Positions.random", length=length, longest=longest, batch=batch)
    order, real = rows_to_draw("Positions.random", length, batch, attention_mask, generator, device)
    tokens = order.shape[1]
    if longest < tokens:
        raise PositionsError(
            f"Positions.random(longest={longest}): {tokens} tokens need as many different "
            f"positions, so longest must be at least {tokens}"
        )
    if reading_values() and order.shape[0] * longest > MOST:
        raise PositionsError(
            f"Positions.random(longest={longest}) of {order.shape[0]} rows: a number is drawn for "
            f"each position of each row, at most {MOST:,} in all; Positions.skipping draws a few"
        )
    chosen = sorted_subsets(real, torch.full_like(real, longest), tokens, longest, generator)
    ids = chosen.gather(1, order).clamp(max=longest - 1)
    return drawn(make, ids, batch, attention_mask, longest, causal)
