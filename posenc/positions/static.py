"""A cache of fixed size, whose rows are filled from slot 0 on, each as far as its `past`."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from posenc.errors import PositionsError
from posenc.positions.tokens import Tokens, check_sizes, check_tensors, reading_values

P = TypeVar("P")


def static(make: Callable[..., P], q_len: int, slots: int, past: Tensor | int) -> P:
    """New tokens in a cache of fixed size, causal; one compiled graph serves all steps.

    Key n is slot n of the cache, and token n of its row. q_len new tokens of each row are in
    its slots past .. past + q_len - 1; slots beyond are not seen yet.

    past  how many tokens came before: a whole number, () for all rows or (b,) for each

    Example: `Positions.static(1, slots=64, past=torch.tensor([5, 9]))`.

    Raises PositionsError where the new tokens do not fit.
    """
    call = f"Positions.static({q_len}, slots={slots}, past=...)"
    past = torch.as_tensor(past)
    if past.ndim > 1 or past.dtype not in (torch.int32, torch.int64):
        raise PositionsError(
            f"{call}: past has shape {tuple(past.shape)} and {past.dtype}: how many tokens came "
            "before is needed, a whole number, () for all rows or (b,) for each"
        )
    check_sizes(call, q_len, slots)
    check_tensors("Positions.static", past=past)
    if reading_values():
        least, most = (int(value) for value in past.aminmax())
        if least < 0 or most + q_len > slots:
            raise PositionsError(
                f"{call}: past goes from {least} to {most}, so {q_len} more tokens would fill "
                f"slots up to {most + q_len}: it must be from 0 to {slots - q_len}"
            )
    rows = past.long().view(-1, 1)
    new = rows + torch.arange(q_len, device=past.device)
    slot = torch.arange(slots, device=past.device)
    filled = rows + q_len
    queries = Tokens(new, new, length=filled.expand(-1, q_len))
    keys = Tokens(slot, slot, length=filled.expand(-1, slots), valid=slot < filled)
    return make(queries, keys, causal=True, unit_step=True)
