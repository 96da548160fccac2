from collections.abc import Iterator

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from posenc.encoding import Encoding, Tags
from posenc.encodings._absolute import Absolute, Merge
from posenc.encodings._weights import linear_in_dtype
from posenc.errors import PositionsError, whole
from posenc.positions import Positions
from posenc.torch_modes import autocast_off


class Coordinates(Absolute):
    """A trained linear map of the coordinates of each token, added to the embeddings.

        p[token] = weight position[token] + bias,   weight (dim, axes), bias (dim,)

    Of nodes of a graph, whose coordinates Positions.graph tells, these are

        Laplacian eigenvectors (LapPE)          Positions.graph(adjacency, eigenvectors=axes)
        random walks (RWPE, RWSE)               Positions.graph(adjacency, steps=axes)
        both side by side                       Positions.graph(adjacency, eigenvectors=8, steps=16)

    Of points in space, it is a map of their coordinates. Positions are (b, t, axes); tokens that
    simply count have one axis. merge is as in Sinusoidal: GraphGPS puts them beside a map of the
    node, "concat". Its normalisation over the batch and its maps of more layers are not here, nor
    are encoders that read eigenvalues, nor LSPE's second way through the layers. Raises
    SettingError for dim or axes < 1; PositionsError for another number of coordinates.

    Source: Dwivedi and Bresson 2020, arXiv:2012.09699; Dwivedi et al. 2021, arXiv:2110.07875.
    """

    name = "coordinates"
    paper = "arXiv:2012.09699"
    tags = Tags(comparable="text has no graph, and a map of the count alone grows without bound")

    def __init__(self, dim: int, axes: int = 1, merge: Merge = "add") -> None:
        whole("Coordinates", dim=dim, axes=axes)
        super().__init__(dim, merge)
        self.dim, self.axes = dim, axes
        self.projection = nn.Linear(axes, dim)

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        # Tokens that count have one axis; tests of graphs take more.
        yield from (cls(16), cls(16, merge="multiply"), cls(6, merge="concat"))

    def coordinates(self, positions: Positions) -> Tensor:
        place = positions.queries.position
        if place.ndim < 3 and self.axes == 1:
            return place.view(-1, place.shape[-1], 1)
        if place.ndim < 3 or place.shape[-1] != self.axes:
            raise PositionsError(
                f"{self!r} reads {self.axes} coordinates per token, but the positions have shape "
                f"{tuple(place.shape)}: give Positions.graph(adjacency, ...) with as many "
                f"coordinates, or Positions of shape (b, t, {self.axes})"
            )
        return place

    def vectors(self, positions: Positions) -> Float[Tensor, "#b t c"]:
        weight = self.projection.weight
        place = self.coordinates(positions)
        with autocast_off(place.device):
            return linear_in_dtype(place.double(), self.projection).to(
                torch.promote_types(weight.dtype, torch.float32)
            )

    def reference_vectors(
        self, positions: Float64[Tensor, "b t *axes"]
    ) -> Float64[Tensor, "b t c"]:
        place = positions.reshape(*positions.shape[:2], self.axes)
        weight, bias = self.projection.weight.double(), self.projection.bias.double()
        columns = [
            sum((weight[c, axis] * place[..., axis] for axis in range(self.axes)), bias[c])
            for c in range(self.dim)
        ]
        return torch.stack(columns, dim=-1)
