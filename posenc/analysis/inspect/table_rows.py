"""A learned table of positions, row by row: which rows look trained.

Letters: n rows, c columns.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize, pad

RowState = Literal["trained", "initial", "unrelated", "zero"]

# Chance does not reach so many standard deviations in a table of some thousand rows.
DEVIATIONS = 5.0


@dataclass(frozen=True, eq=False)
class TableRows:
    """What tells a row that was trained from one that was not.

    norm       2-norm of the row
    neighbour  the largest |cosine| with the row before and the row after
    state      of each row:
        trained    like a neighbour in direction, or of another length than at initialisation
        initial    as it was drawn: of the length of such rows, and like neither neighbour
        unrelated  like neither neighbour, and nothing says how long rows were at initialisation
        zero       no position, as of padding
    """

    norm: Float[Tensor, "n"]
    neighbour: Float[Tensor, "n"]
    state: tuple[RowState, ...]


def table_rows(rows: Float[Tensor, "n c"], deviation: float | None = None) -> TableRows:
    """The rows of a table whose numbers were drawn with this standard deviation, where it is known.

    The cosine r of two rows of independent normal numbers has a density proportional to
    (1 - r^2)^((c - 3) / 2), with the deviation 1/sqrt(c), and the length of a row, sqrt(c) *
    deviation, varies by deviation / sqrt(2). Beyond DEVIATIONS of these a row is told from one that
    was drawn; of few columns, beyond the cosine that is as rare. A table of sinusoids of 14 columns
    or more counts as trained; rows of a narrower one are no more alike than drawn rows may be.
    """
    x = rows.double()
    n, c = x.shape
    norm = torch.linalg.vector_norm(x, dim=1)
    unit = normalize(x, dim=1)
    beside = (unit[1:] * unit[:-1]).sum(dim=1).abs()
    neighbour = torch.maximum(pad(beside, (1, 0)), pad(beside, (0, 1)))
    # (1 - r^2)^((c - 1) / 2) = exp(-DEVIATIONS^2 / 2): r = DEVIATIONS / sqrt(c) where c is large.
    # Of one column every cosine is 1 or -1, and tells nothing.
    least = (1 - math.exp(-(DEVIATIONS**2) / (c - 1))) ** 0.5 if c > 1 else 1.0
    related = neighbour > least
    drawn = torch.zeros(n, dtype=torch.bool)
    if deviation is not None:
        drawn = (norm - deviation * c**0.5).abs() <= DEVIATIONS * deviation / 2**0.5

    def state(row: int) -> RowState:
        if norm[row] == 0:
            return "zero"
        if related[row]:
            return "trained"
        if deviation is None:
            return "unrelated"
        return "initial" if drawn[row] else "trained"

    return TableRows(norm, neighbour, tuple(state(row) for row in range(n)))
