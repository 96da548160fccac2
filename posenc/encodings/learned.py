from collections.abc import Iterator

import torch
import torch.nn.functional as F
from jaxtyping import Float, Float64
from torch import Tensor, nn

from posenc.encoding import Encoding, Tags, bound_for, embedding_positions
from posenc.encodings._merge import Merge, check_merge, merged
from posenc.errors import PositionsError, positive
from posenc.positions import Positions, one_axis


class Learned(Encoding):
    """One trained vector per position, added to the embeddings.

        x[pos] + weight[pos],   weight (max_length, dim), normal with deviation 0.02 at first

    Rows beyond the longest training input stay as they began. merge "multiply" is
    x * (1 + weight), "concat" puts the row beside x. Raises PositionsError for positions of
    max_length and more, for fractional positions, and for a bare tensor, which does not tell how
    far it reaches.

    Source: Gehring et al. 2017, arXiv:1705.03122, section 3.1; BERT, arXiv:1810.04805.
    """

    name = "learned"
    family = "absolute"
    paper = "arXiv:1810.04805"
    tags = Tags(needs_extent=True)

    def __init__(self, dim: int, max_length: int, merge: Merge = "add") -> None:
        super().__init__()
        positive("Learned", dim=dim, max_length=max_length)
        check_merge("Learned", merge)
        self.dim, self.max_length, self.merge = dim, max_length, merge
        self.model_dim = None if merge == "concat" else dim
        self.weight = nn.Parameter(torch.randn(max_length, dim) * 0.02)

    @classmethod
    def for_model(cls, *, model_dim: int, max_length: int, **_: object) -> Encoding:
        return cls(model_dim, max_length)

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(16, max_length=64)
        yield cls(16, max_length=64, merge="multiply")
        yield cls(6, max_length=64, merge="concat")

    def embedded_width(self, dim: int) -> int:
        return dim + self.dim if self.merge == "concat" else dim

    def embed(
        self, x: Float[Tensor, "b t c"], positions: Positions | Tensor | None, *, layer: int = 0
    ) -> Float[Tensor, "b t c_out"]:
        positions = embedding_positions(self, x, positions)
        bound = bound_for(self, positions)
        at = one_axis(positions.q, "Learned")
        if at.is_floating_point():
            raise PositionsError("Learned has one row per whole position: give int64 positions")
        if bound > self.max_length:
            raise PositionsError(
                f"Learned(max_length={self.max_length}) got positions up to {bound - 1}: "
                f"construct it with max_length >= {bound}"
            )
        rows = F.embedding(at.view(-1, at.shape[-1]), self.weight)
        return merged(x, rows, self.merge)

    def reference_embed(
        self, x: Float64[Tensor, "b t c"], positions: Float64[Tensor, "b t"]
    ) -> Float64[Tensor, "b t c_out"]:
        p = torch.stack(
            [torch.stack([self.weight[int(at)] for at in row]) for row in positions]
        ).double()
        if self.merge == "concat":
            return torch.cat((x, p), dim=-1)
        return x + p if self.merge == "add" else x + x * p
