"""Skew-symmetric matrices from the entries above their diagonals."""

import torch
from jaxtyping import Float64
from torch import Tensor


def skew(upper: Tensor, size: int) -> Float64[Tensor, "*n e e"]:
    """A with A[i, j] = -A[j, i] = upper (*n, e (e - 1) / 2), row by row, in float64."""
    row, column = torch.triu_indices(size, size, 1, device=upper.device)
    flat = upper.new_zeros(*upper.shape[:-1], size * size, dtype=torch.float64)
    above = flat.index_copy(-1, row * size + column, upper.double()).unflatten(-1, (size, size))
    return above - above.mT


def reference_skew(upper: Tensor, size: int) -> Float64[Tensor, "*n e e"]:
    """The same, entry by entry: for references."""
    out = upper.new_zeros(*upper.shape[:-1], size, size, dtype=torch.float64)
    entries = iter(range(upper.shape[-1]))
    for i in range(size):
        for j in range(i + 1, size):
            out[..., i, j] = upper[..., next(entries)]
            out[..., j, i] = -out[..., i, j]
    return out
