"""What absolute encodings share: how vectors of positions join the embeddings, and look-up."""

from typing import Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float, Float64
from torch import Tensor

from posenc.encoding import Encoding, bound_for, embedding_positions
from posenc.errors import PositionsError, one_of, whole
from posenc.positions import Positions, one_axis

Merge = Literal["add", "multiply", "hadamard", "concat"]


def merged(
    x: Float[Tensor, "b t c"], p: Float[Tensor, "#b t e"], merge: Merge
) -> Float[Tensor, "b t c_out"]:
    """x + p, x * (1 + p), x * p, or x and p side by side, in x's dtype.

    Source of x * p: Su, https://kexue.fm/archives/8130; of x * (1 + p): "mul" of bert4keras, where
    it took the place of x * p.
    """
    if merge == "add":
        out = x + p
    elif merge == "multiply":
        out = x * (1 + p)
    elif merge == "hadamard":
        out = x * p
    else:
        out = torch.cat((x, p.expand(*x.shape[:-1], -1).to(x.dtype)), dim=-1)
    return out.to(x.dtype)


class Absolute(Encoding):
    """Base of encodings that merge one vector per position into the embeddings.

    A member says what the vectors are: `vectors` for `embed`, `reference_vectors` by its paper.
    They are `columns` wide, which is then the width of x, unless they come beside it.
    """

    family = "absolute"
    sizes = ("model_dim",)

    def __init__(self, columns: int, merge: Merge = "add") -> None:
        super().__init__()
        one_of(type(self).__name__, get_args(Merge), merge=merge)
        self.columns = columns
        self.merge: Merge = merge
        self.model_dim = None if merge == "concat" else columns

    def vectors(self, positions: Positions) -> Float[Tensor, "#b t e"]:
        """One vector per query position; float64 where no parameter enters."""
        raise NotImplementedError

    def reference_vectors(
        self, positions: Float64[Tensor, "b t *axes"]
    ) -> Float64[Tensor, "b t e"]:
        """The paper's formula for `vectors`, slow and plain, in float64."""
        raise NotImplementedError

    def coordinates(self, positions: Positions) -> Tensor:
        """The one coordinate of each query, (1|b, t, 1); PositionsError where it has several."""
        tokens = one_axis(positions.queries.position, type(self).__name__)
        return tokens.view(-1, tokens.shape[-1], 1)

    def embedded_width(self, dim: int) -> int:
        return dim + self.columns if self.merge == "concat" else dim

    def embed(
        self, x: Float[Tensor, "b t c"], positions: Positions | Tensor | None, *, layer: int = 0
    ) -> Float[Tensor, "b t c_out"]:
        p = self.vectors(embedding_positions(self, x, positions))
        if p.dtype == torch.float64 and x.dtype != torch.float64:
            p = p.float()
        return merged(x, p, self.merge)

    def reference_embed(
        self, x: Float64[Tensor, "b t c"], positions: Float64[Tensor, "b t *axes"]
    ) -> Float64[Tensor, "b t c_out"]:
        p = self.reference_vectors(positions)
        if self.merge == "concat":
            return torch.cat((x, p), dim=-1)
        if self.merge == "hadamard":
            return torch.einsum("btc,btc->btc", x, p.expand_as(x))
        return x + p if self.merge == "add" else x + x * p


class Table(Absolute):
    """Base of encodings that have one row per position below max_length; `rows` makes them."""

    sizes = ("model_dim", "max_length")
    # The row that gets no gradient, if there is one.
    padding_idx: int | None = None

    def __init__(self, dim: int, max_length: int, merge: Merge = "add") -> None:
        super().__init__(dim, merge)
        whole(type(self).__name__, dim=dim, max_length=max_length)
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
        return merged(x, self.vectors(embedding_positions(self, x, positions), layer), self.merge)

    def vectors(self, positions: Positions, layer: int = 0) -> Float[Tensor, "#b t e"]:
        bound, kind = bound_for(self, positions), type(self).__name__
        index = self.coordinates(positions)[..., 0]
        if index.is_floating_point():
            raise PositionsError(
                f"{kind} has one row per whole position: give int64 positions, or take an encoding "
                "of real positions, as Sinusoidal is"
            )
        if bound > self.max_length:
            raise PositionsError(
                f"{kind}(max_length={self.max_length}) got positions up to {bound - 1}: "
                f"construct it with max_length >= {bound}"
            )
        return F.embedding(index, self.rows(bound, layer), self.padding_idx)

    def reference_vectors(
        self, positions: Float64[Tensor, "b t *axes"]
    ) -> Float64[Tensor, "b t e"]:
        return self.reference_rows(int(positions.max()) + 1)[positions.long()]


def working(parameter: Tensor) -> Tensor:
    """A parameter in the dtype that rows are computed in: its own, but float32 at the least."""
    return parameter.to(torch.promote_types(parameter.dtype, torch.float32))
