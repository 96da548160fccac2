"""What encodings share that look one vector up per whole position."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Float64
from torch import Tensor

from posenc.encoding import bound_for, embedding_positions
from posenc.encodings._merge import Absolute, Merge, merged
from posenc.errors import PositionsError, positive
from posenc.positions import Positions, one_axis


class Table(Absolute):
    """Base of encodings that have one row per position below max_length; `rows` makes them."""

    def __init__(self, dim: int, max_length: int, merge: Merge) -> None:
        super().__init__(dim, merge)
        positive(type(self).__name__, dim=dim, max_length=max_length)
        self.dim, self.max_length = dim, max_length

    def rows(self, length: int, layer: int = 0) -> Float[Tensor, "rows e"]:
        """The vectors of positions 0 to length - 1, or of more, in at least the weights' dtype."""
        raise NotImplementedError

    def reference_rows(self, length: int) -> Float64[Tensor, "rows e"]:
        """The same by the paper's formula, for layer 0, slow and plain."""
        raise NotImplementedError

    def embed(
        self, x: Float[Tensor, "b t c"], positions: Positions | Tensor | None, *, layer: int = 0
    ) -> Float[Tensor, "b t c_out"]:
        positions = embedding_positions(self, x, positions)
        return merged(x, self.vectors(positions, layer), self.merge)

    def vectors(self, positions: Positions, layer: int = 0) -> Float[Tensor, "#b t e"]:
        bound, kind = bound_for(self, positions), type(self).__name__
        at = one_axis(positions.queries.position, kind)
        if at.is_floating_point():
            raise PositionsError(f"{kind} has one row per whole position: give int64 positions")
        if bound > self.max_length:
            raise PositionsError(
                f"{kind}(max_length={self.max_length}) got positions up to {bound - 1}: "
                f"construct it with max_length >= {bound}"
            )
        return F.embedding(at.view(-1, at.shape[-1]), self.rows(bound, layer))

    def reference_vectors(self, positions: Float64[Tensor, "b t"]) -> Float64[Tensor, "b t e"]:
        table = self.reference_rows(int(positions.max()) + 1)
        return torch.stack([torch.stack([table[int(at)] for at in row]) for row in positions])


def working(parameter: Tensor) -> Tensor:
    """A parameter in the dtype that rows are computed in: its own, but float32 at the least."""
    return parameter.to(torch.promote_types(parameter.dtype, torch.float32))
