"""What a rolling cache holds: the first tokens as sinks, and the last ones in a window."""

import torch

from posenc.errors import PositionsError
from posenc.positions.tokens import Tokens, reading_values


def rolled(
    q_len: int,
    past: int,
    window: int,
    sinks: int,
    renumbered: bool,
    extent: int | None,
    device: torch.device | str | None,
) -> tuple[Tokens, int, int]:
    """The keys that are left when q_len tokens come after `past`, how many others were dropped, and
    a bound on position + 1.

    The window counts the token itself, so window - 1 tokens stay before the first new one.
    """
    if q_len < 1 or past < 0 or window < 1 or sinks < 0:
        raise PositionsError(
            f"Positions.rolling({q_len}, past={past}, window={window}, sinks={sinks}): "
            "q_len >= 1, past >= 0, window >= 1 and sinks >= 0 are needed"
        )
    seen = past + q_len
    first = max(past - (window - 1), 0)
    kept = min(sinks, first)
    order = torch.arange(kept + seen - first, device=device)
    at, dropped = order, first - kept
    order = torch.where(order < kept, order, order + dropped)
    at = at if renumbered else order
    reach = order.shape[0] if renumbered else seen
    if extent is None:
        return Tokens(at, order, length=torch.full_like(order, reach)), dropped, reach
    if reading_values() and extent < reach:
        raise PositionsError(
            f"Positions.rolling({q_len}, past={past}, window={window}, extent={extent}): the "
            f"largest position is {reach - 1}, so extent must be at least {reach}"
        )
    return Tokens(at, order), dropped, extent
