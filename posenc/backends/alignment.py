"""Where scores of one distance lie: along the diagonals of the matrix, or anywhere in it."""

import torch

from posenc.positions import Positions


def aligned(positions: Positions) -> bool:
    """Whether k_order - q_order rises by one per key and falls by one per query."""
    shift = positions.k_len - positions.q_len
    if positions.in_order:
        return shift >= 0
    # What follows reads values, which a graph cannot.
    if torch.compiler.is_compiling() or shift < 0:
        return False
    q, k = positions.orders()
    if not torch.equal(*torch.broadcast_tensors(q, k[..., shift:])):
        return False
    steps = k[..., 1:] - k[..., :-1] == 1
    own, documents = positions.queries.document, positions.keys.document
    if own is not None and documents is not None:
        if not torch.equal(*torch.broadcast_tensors(own, documents[..., shift:])):
            return False
        steps = steps | (documents[..., 1:] != documents[..., :-1])
    return bool(steps.all())
