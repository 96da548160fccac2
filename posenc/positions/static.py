"""A cache of fixed size, whose rows are filled from slot 0 on, each as far as its `past`."""

import torch
from torch import Tensor

from posenc.errors import PositionsError
from posenc.positions.tokens import Tokens, check_readable, check_sizes, reading_values


def in_slots(q_len: int, slots: int, past: Tensor | int) -> tuple[Tokens, Tokens]:
    """New tokens behind the `past` ones of each row, and the slots, those filled valid."""
    call = f"Positions.static({q_len}, slots={slots}, past=...)"
    past = torch.as_tensor(past)
    if past.ndim > 1 or past.dtype not in (torch.int32, torch.int64):
        raise PositionsError(
            f"{call}: past has shape {tuple(past.shape)} and {past.dtype}: how many tokens came "
            "before is needed, a whole number, () for all rows or (b,) for each"
        )
    check_sizes(call, q_len, slots)
    check_readable("Positions.static", past=past)
    if reading_values():
        least, most = (int(value) for value in past.aminmax())
        if least < 0 or most + q_len > slots:
            raise PositionsError(
                f"{call}: past goes from {least} to {most}, so {q_len} more tokens would fill "
                f"slots up to {most + q_len}: it must be from 0 to {slots - q_len}"
            )
    rows = past.long().view(-1, 1)
    q_at = rows + torch.arange(q_len, device=past.device)
    k_at = torch.arange(slots, device=past.device)
    filled = rows + q_len
    queries = Tokens(q_at, q_at, length=filled.expand(-1, q_len))
    return queries, Tokens(k_at, k_at, length=filled.expand(-1, slots), valid=k_at < filled)
