"""What a user gives as positions, as Positions."""

import torch
from torch import Tensor

from posenc.errors import PositionsError
from posenc.positions.from_ids import whole_or_double
from posenc.positions.positions import Positions
from posenc.positions.tokens import Tokens


def as_positions(
    positions: Positions | Tensor | None,
    q_len: int,
    k_len: int | None = None,
    *,
    causal: bool | None = None,
    device: torch.device | None = None,
) -> Positions:
    """What a user gave as `positions`, as Positions that fit q_len queries and k_len keys.

    None: the queries are the last q_len of the k_len tokens (torch's is_causal aligns the first).
    A tensor: coordinates of the keys, as they are, with no known bound.
    """
    k_len = q_len if k_len is None else k_len
    if positions is None:
        return Positions.build(q_len, k_len, causal=bool(causal), device=device)
    if isinstance(positions, Tensor):
        keys = Tokens(whole_or_double(positions))
        queries = keys if q_len == k_len else keys[k_len - q_len :]
        positions = Positions(queries, keys, causal=bool(causal))
    elif causal is not None and causal != positions.causal:
        raise PositionsError(
            f"causal={causal}, but the positions were built with causal={positions.causal}: "
            "leave causal away, or build them alike"
        )
    if positions.q_len != q_len or positions.k_len != k_len:
        raise PositionsError(
            f"{q_len} queries and {k_len} keys, but positions for {positions.q_len} queries "
            f"and {positions.k_len} keys"
        )
    return positions
