"""What a rolling cache holds: the first tokens as sinks, and the last ones in a window."""

from collections.abc import Callable
from typing import TypeVar

import torch
from jaxtyping import Int
from torch import Tensor

from posenc.errors import PositionsError
from posenc.positions.tokens import Tokens, check_whole, reading_values

P = TypeVar("P")


def rolling(
    make: Callable[..., P],
    q_len: int = 1,
    *,
    past: int,
    window: int,
    sinks: int = 0,
    renumbered: bool = False,
    extent: int | None = None,
    device: torch.device | str | None = None,
) -> P:
    """What is left in a rolling cache when q_len tokens come after `past` others; causal.

    Keys are the first `sinks` tokens, the window - 1 before the new ones, and the new ones: at
    q_len = 1 sinks + window tokens. More queries than one also need
    [SlidingWindow(window), Sinks(sinks)] to see no more than they would one by one.

    renumbered  tokens stand where the cache holds them, 0, 1, 2, ..., as if those dropped had
                never been (StreamingLLM); else they keep their positions
    extent      as in `build`

    Example: `Positions.rolling(past=100, window=8, sinks=4)`.

    Raises PositionsError for sizes below these, and positions beyond the extent.
    Source: Xiao et al. 2024, arXiv:2309.17453, section 3.2.
    """
    check_whole("Positions.rolling", q_len=q_len, past=past, window=window, sinks=sinks)
    if q_len < 1 or past < 0 or window < 1 or sinks < 0:
        raise PositionsError(
            f"Positions.rolling({q_len}, past={past}, window={window}, sinks={sinks}): "
            "q_len >= 1, past >= 0, window >= 1 and sinks >= 0 are needed"
        )
    seen = past + q_len
    new = torch.arange(past, seen, device=device)
    order = torch.cat((kept(past, sinks, window - 1, device), new))
    position = torch.arange(len(order), device=device) if renumbered else order
    reach = len(order) if renumbered else seen
    length = torch.full_like(order, reach) if extent is None else None
    if extent is None:
        extent = reach
    elif reading_values() and extent < reach:
        raise PositionsError(
            f"Positions.rolling({q_len}, past={past}, window={window}, extent={extent}): the "
            f"largest position is {reach - 1}, so extent must be at least {reach}"
        )
    keys = Tokens(position, order, length=length)
    unit_step = not renumbered or len(order) == seen
    return make(keys.last(q_len), keys, True, extent, unit_step)


def kept(past: int, sinks: int, recent: int, device: torch.device | str | None) -> Int[Tensor, "k"]:
    """Which of `past` tokens stay: the first `sinks` and the last `recent`, in order."""
    order = torch.arange(past, device=device)
    if past <= sinks + recent:
        return order
    return torch.cat((order[:sinks], order[past - recent :]))
