"""The directions in which the rows of a table differ most.

Letters: n rows, c columns, m components.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.errors import ShapeError


@dataclass(frozen=True, eq=False)
class PrincipalComponents:
    """coordinates are those of each row; share is the part of the rows' variance of each."""

    coordinates: Float[Tensor, "n m"]
    share: Float[Tensor, "m"]


def principal_components(rows: Float[Tensor, "n c"], count: int = 3) -> PrincipalComponents:
    """Principal component analysis of the rows, about their mean; the largest `count` components.

    A component's sign is free; here the largest coordinate is positive. Where all rows are alike
    the shares are 0. Raises ShapeError for more components than rows or columns.
    """
    n, c = rows.shape
    if not 1 <= count <= min(n, c):
        raise ShapeError(
            f"principal_components(rows ({n}, {c}), {count}): there are 1 to {min(n, c)} components"
        )
    x = rows.double()
    u, s, _ = torch.linalg.svd(x - x.mean(dim=0), full_matrices=False)
    coordinates = u[:, :count] * s[:count]
    largest = coordinates.gather(0, coordinates.abs().argmax(dim=0, keepdim=True))
    whole = s.square().sum()
    share = s[:count].square() / whole.where(whole > 0, 1.0)
    return PrincipalComponents(coordinates * torch.where(largest < 0, -1.0, 1.0), share)
