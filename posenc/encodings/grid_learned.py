import math
from collections.abc import Iterator, Sequence
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float, Float64
from torch import Tensor, nn

from posenc.encoding import Encoding, Tags, bound_for
from posenc.encodings._absolute import Absolute, Merge
from posenc.encodings._grid import by_axis, grid_for, grid_of, reference_along
from posenc.errors import PositionsError, SettingError, is_whole, listed, one_of, whole
from posenc.positions import Positions

Join = Literal["sum", "concat"]


class GridLearned(Absolute):
    """A trained vector for each row and one for each column, together, added to the embeddings.

        p[token] = sum of weight[n, position[token, order[n]]] over n = 0, ..., axes - 1
        weight (axes, max_length, dim), normal with deviation 0.02 at first

    A grid of n x n patches costs 2n vectors, not n**2 as in Learned, and a patch has the same
    vector of its row in images of every width. With join="concat" weight is (axes, max_length,
    dim/axes), and its vectors stand side by side. order says which coordinate each table reads;
    None: rows, then columns. Published tables:

        Gemma 4 and NaViT   join="sum"; Gemma's first table is that of columns, order=(1, 0), where
                            positions are those of Positions.grid, and None for its own (x, y)
        DETR                join="concat", order=(1, 0), max_length=50

    Positions are (b, t, axes), as of Positions.grid, or one coordinate per token where grid tells
    the sizes of the axes, as in AxialRotary. In Gemma a token of padding has no vector. merge is as
    in Sinusoidal. Raises SettingError for an order that is none of the axes, a dim that they cannot
    share and a grid beyond max_length; PositionsError for positions of max_length and more, for
    fractional ones, for a bare tensor, which does not tell how far it reaches, and for another
    number of coordinates.

    Source: Dehghani et al. 2023, arXiv:2307.06304, section 2.1; Carion et al. 2020,
    arXiv:2005.12872, table 3; Gemma 4's code in transformers.
    """

    name = "grid_learned"
    paper = "arXiv:2307.06304"
    sizes = ("model_dim", "max_length")
    tags = Tags(needs_extent=True, comparable="text has no rows and columns")

    def __init__(
        self,
        dim: int,
        max_length: int,
        axes: int = 2,
        grid: Sequence[int] | None = None,
        join: Join = "sum",
        order: Sequence[int] | None = None,
        merge: Merge = "add",
    ) -> None:
        whole("GridLearned", dim=dim, max_length=max_length, axes=axes)
        super().__init__(dim, merge)
        one_of("GridLearned", get_args(Join), join=join)
        self.dim, self.max_length, self.axes = dim, max_length, axes
        self.join: Join = join
        self.grid = grid_of("GridLearned", axes, grid)
        self.order = None if order is None else listed("GridLearned", order=order)
        self._read = tuple(range(axes)) if self.order is None else self.order
        if not all(map(is_whole, self._read)) or sorted(self._read) != list(range(axes)):
            raise SettingError(
                f"GridLearned(axes={axes}, order={order}): each axis stands once, "
                f"a permutation of {tuple(range(axes))}"
            )
        if join == "concat" and dim % axes:
            raise SettingError(
                f"GridLearned(dim={dim}, axes={axes}, join='concat'): {axes} vectors side by side "
                f"need a dim that is a multiple of {axes}"
            )
        if max(self.grid or (1,)) > max_length:
            raise SettingError(
                f"GridLearned(max_length={max_length}, grid={self.grid}): each axis has a table of "
                f"max_length vectors: max_length >= {max(self.grid or (1,))} is needed"
            )
        width = dim if join == "sum" else dim // axes
        self.weight = nn.Parameter(torch.randn(axes, max_length, width) * 0.02)

    @classmethod
    def for_model(cls, *, model_dim: int, max_length: int, **_: object) -> Encoding:
        grid = grid_for(max_length)
        return cls(model_dim, max(grid), grid=grid)

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(16, max_length=32, grid=(3, 4))
        yield cls(12, max_length=32, axes=3, grid=(2, 2, 3), join="concat", order=(2, 0, 1))

    def vectors(self, positions: Positions) -> Float[Tensor, "#b t c"]:
        place = positions.queries.position
        tokens = by_axis(self, place, self.grid)
        if tokens.is_floating_point():
            raise PositionsError(
                "GridLearned has vectors for whole rows and columns: give int64 positions"
            )
        bound = bound_for(self, positions)
        if place.ndim < 3 and self.grid is not None:
            # Only the first axis grows with the number of tokens; the others wrap.
            bound = -(-bound // math.prod(self.grid[1:]))
        if bound > self.max_length:
            raise PositionsError(
                f"GridLearned(max_length={self.max_length}) got rows or columns up to {bound - 1}: "
                f"construct it with max_length >= {bound}"
            )
        found = [
            F.embedding(tokens[..., axis], table)
            for axis, table in zip(self._read, self.weight, strict=True)
        ]
        return torch.cat(found, dim=-1) if self.join == "concat" else torch.stack(found).sum(dim=0)

    def reference_vectors(
        self, positions: Float64[Tensor, "b t *axes"]
    ) -> Float64[Tensor, "b t c"]:
        found = []
        for n, axis in enumerate(self._read):
            at = reference_along(positions, axis, self.grid)
            rows = torch.arange(self.max_length, device=at.device)
            chosen = (at[..., None] == rows).double()
            found.append(torch.einsum("btm,mc->btc", chosen, self.weight[n].double()))
        if self.join == "concat":
            return torch.cat(found, dim=-1)
        total = torch.zeros_like(found[0])
        for vector in found:
            total = total + vector
        return total
