"""What biases share that are a table by differences of rows and columns."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from posenc.encoding import (
    Context,
    Encoding,
    Keys,
    Pairs,
    Queries,
    Scores,
    Tags,
    bound_for,
)
from posenc.encodings._grid import by_axis, grid_for, grid_of, reference_along
from posenc.errors import PositionsError, SettingError, whole
from posenc.positions import Positions
from posenc.terms import GridTable, Term


class GridBias(Encoding):
    """Base of encodings that add one number per head and difference (row, column) to the score.

    A member says which in `biases` and, by its paper, in `reference_biases`. With class_token the
    first token of each sequence has no place, and `class_biases` tells its three numbers per head.
    """

    family = "bias"
    sizes = ("heads",)
    axes = 2
    tags = Tags(norm_preserving=True, needs_extent=True, comparable="text has no rows and columns")
    grid: tuple[int, ...]
    class_token = False

    def __init__(self, heads: int, grid: Sequence[int]) -> None:
        super().__init__()
        kind = type(self).__name__
        whole(kind, heads=heads)
        sizes = grid_of(kind, 2, grid)
        if sizes is None:
            raise SettingError(f"{kind}(grid=None): give the rows and columns of a window")
        self.heads, self.grid = heads, sizes

    @classmethod
    def for_model(cls, *, heads: int, train_length: int, **_: object) -> Encoding:
        return cls(heads, grid_for(train_length))

    def biases(
        self, rows: Int[Tensor, "n"], columns: Int[Tensor, "n"], dtype: torch.dtype
    ) -> Float[Tensor, "h n"]:
        """What joins the score of each head at these differences k - q."""
        raise NotImplementedError

    def class_biases(self) -> Float[Tensor, "h 3"]:
        """From the class's token, to it, and from it to itself."""
        raise NotImplementedError

    def reference_biases(
        self, rows: Float64[Tensor, "b tq tk"], columns: Float64[Tensor, "b tq tk"]
    ) -> Float64[Tensor, "b h tq tk"]:
        """The paper's formula for what joins each score, slow and plain, in float64."""
        raise NotImplementedError

    def lower(
        self,
        positions: Positions,
        context: Context | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Term, ...]:
        q, k = positions.queries.position, positions.keys.position
        if q.is_floating_point() or k.is_floating_point():
            raise PositionsError(
                f"{type(self).__name__} holds one number per whole difference, but the positions "
                "are float64: give int64 positions, as of Positions.grid(height, width)"
            )
        height = width = bound_for(self, positions)
        if k.ndim < 3:
            # One row more than are needed, so that a graph knows that there are several.
            height, width = height // self.grid[1] + 2, self.grid[1]
        spans = [torch.arange(1 - n, n, device=positions.device) for n in (height, width)]
        steps = torch.cartesian_prod(*spans)
        values = self.biases(steps[:, 0], steps[:, 1], dtype)
        # The largest index of a place; the differences of places reach from -last to last.
        last = (height - 1) * (2 * width - 1) + width - 1
        indices = [self._index(x, width) for x in (q, k)]
        if self.class_token:
            # As a key and as a query it lies so far out that its differences are its own.
            of, to, own = (x[:, None].expand(-1, last + 1) for x in self.class_biases().unbind(1))
            values = torch.cat((values, to, of, own), dim=1)
            orders = positions.orders()
            for side, far in enumerate((-2 * last - 2, 2 * last + 1)):
                order = orders[side].view(-1, orders[side].shape[-1])
                indices[side] = torch.where(order == 0, far, indices[side])
        return (GridTable(values, indices[0], indices[1], zero=last),)

    def _index(self, position: Tensor, width: int) -> Int[Tensor, "#b t"]:
        """Rows and columns as one number, of which each difference has one of its own."""
        if self.class_token and position.ndim < 3:
            position = (position - 1).clamp(min=0)
        places = by_axis(self, position, self.grid)
        return places[..., 0] * (2 * width - 1) + places[..., 1]

    def reference_scores(self, q: Queries, k: Keys, at: Pairs) -> Scores:
        placed, steps = (at.q, at.k), []
        if self.class_token and at.k.ndim < 3:
            placed = tuple(torch.where(x < 1, 0.0, x - 1) for x in placed)
        for axis in range(2):
            of_q, of_k = (reference_along(x, axis, self.grid) for x in placed)
            steps.append(of_k[:, None, :] - of_q[:, :, None])
        added = self.reference_biases(*steps)
        if self.class_token:
            of, to, own = (x.double()[:, None, None] for x in self.class_biases().unbind(1))
            q_first, k_first = (order == 0 for order in at.orders())
            added = torch.where(q_first, of, torch.where(k_first, to, added))
            added = torch.where(q_first & k_first, own, added)
        return super().reference_scores(q, k, at) + added
