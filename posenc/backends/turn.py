"""Queries and keys as a rotation leaves them: what every fused backend begins with."""

import torch
from torch import Tensor

from posenc.equation import keys_to_turn
from posenc.lowering import Lowered
from posenc.native.turning import turned
from posenc.terms import Rotate


def turned_by(lowered: Lowered, q: Tensor, k: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """q and k in their own dtypes, turned with arithmetic in `dtype` where a term turns them.

    Keys that come turned out of a cache stay; heads that turn alike keys by angles of their own
    get keys of their own.
    """
    for term in lowered.terms:
        if isinstance(term, Rotate):
            q_turn, k_turn = lowered.turns(term, dtype)
            if k_turn is None:
                return turned((q,), q_turn[:1], q_turn[1:], term.layout, term.start)[0], k
            cos, sin = zip(q_turn, k_turn, strict=True)
            k = keys_to_turn(k, term, q.shape[1])
            q, k = turned((q, k), cos, sin, term.layout, term.start)
    return q, k
