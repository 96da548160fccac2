import math
from collections.abc import Iterator

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor, nn

from posenc.encoding import Encoding, Tags
from posenc.encodings._absolute import Absolute, Merge, working
from posenc.errors import PositionsError, SettingError, whole
from posenc.positions import Positions
from posenc.positions.tokens import reading_values


class TreePath(Absolute):
    """The branches from a node up to the root, each step weaker, added to the embeddings.

        PE[l, j, f] = [branch l is j] * p[f]**l * sqrt((1 - p[f]**2) * dim/2),   p = tanh(raw)
        l = 0, ..., depth - 1,   j = 1, ..., degree,   f = 1, ..., dim / (depth * degree)

    Branch 0 is the one from the node to its parent, branch 1 from there to the parent's parent:
    a step down pushes the others back and shrinks them by p, so that nodes which lie alike under
    two others have vectors that are related by one linear map. raw is trained and starts in
    U(0.7, 0.999). A root has the vector 0. Positions are (b, t, depth), as of Positions.tree with
    the same degree and depth; tokens that simply count are a chain, each the first child of the one
    before, of which those deeper than depth are told apart no more. merge is as in Sinusoidal.

    Raises SettingError for a dim that is no multiple of degree * depth; PositionsError for another
    number of coordinates, for more branches than degree and for fractional positions.

    Source: Shiv and Quirk 2019, "Novel positional encodings to enable tree-based transformers",
    NeurIPS. Of the paper itself nothing was read: the formula, p and the start are those of several
    public implementations, which agree.
    """

    name = "tree_path"
    paper = "https://papers.nips.cc/paper/2019/file/6e0917469214d8fbd8c517dcdc6b8dcf-Paper.pdf"
    tags = Tags(comparable="text is no tree, and as a chain it is told apart up to depth alone")

    def __init__(self, dim: int, degree: int = 2, depth: int = 16, merge: Merge = "add") -> None:
        whole("TreePath", dim=dim, degree=degree, depth=depth)
        super().__init__(dim, merge)
        if dim % (degree * depth):
            raise SettingError(
                f"TreePath(dim={dim}, degree={degree}, depth={depth}): each branch of each step "
                f"has as many columns: dim must be a multiple of {degree * depth}"
            )
        self.dim, self.degree, self.depth = dim, degree, depth
        self.raw = nn.Parameter(torch.empty(dim // (degree * depth)).uniform_(0.7, 0.999))

    @classmethod
    def for_model(cls, *, model_dim: int, **_: object) -> Encoding:
        depth = math.gcd(model_dim // 2, 16) if model_dim % 2 == 0 else 1
        return cls(model_dim, degree=2 if model_dim % 2 == 0 else 1, depth=depth)

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield from (cls(16, depth=4), cls(24, degree=3, depth=8, merge="multiply"))
        yield cls(12, degree=1, depth=12, merge="concat")

    def coordinates(self, positions: Positions) -> Int[Tensor, "#b t l"]:
        place, bound = positions.queries.position, positions.bound
        if place.is_floating_point():
            raise PositionsError(
                "TreePath counts branches on whole positions: give int64 positions, or take an "
                "encoding of real positions, as Sinusoidal is"
            )
        if place.ndim < 3:
            steps = torch.arange(self.depth, device=place.device)
            return (place.view(-1, place.shape[-1], 1) > steps).long()
        # A GPU would wait for the answer in every forward pass.
        if bound is None and place.is_cpu and reading_values() and place.numel():
            bound = int(place.amax()) + 1
        if place.shape[-1] != self.depth or (bound is not None and bound - 1 > self.degree):
            raise PositionsError(
                f"{self!r} got positions of shape {tuple(place.shape)} up to "
                f"{None if bound is None else bound - 1}: give Positions.tree(parents, "
                f"degree={self.degree}, depth={self.depth})"
            )
        return place

    def vectors(self, positions: Positions) -> Float[Tensor, "#b t c"]:
        path, raw = self.coordinates(positions), working(self.raw)
        level = torch.arange(self.depth, device=raw.device)[:, None]
        # 1 / cosh(x) is sqrt(1 - tanh(x)**2), without the difference of two numbers near 1.
        weights = raw.tanh() ** level * (math.sqrt(self.dim / 2) / raw.cosh())
        branch = torch.arange(1, self.degree + 1, device=path.device)
        taken = (path[..., None] == branch).to(weights.dtype)
        return (taken[..., None] * weights[:, None]).flatten(-3)

    def reference_vectors(
        self, positions: Float64[Tensor, "b t *axes"]
    ) -> Float64[Tensor, "b t c"]:
        p = torch.tanh(self.raw.double())
        columns = []
        for step in range(self.depth):
            for branch in range(1, self.degree + 1):
                if positions.ndim == 3:
                    taken = positions[..., step] == branch
                else:
                    taken = (positions > step) & (branch == 1)
                for f in range(len(p)):
                    weight = p[f] ** step * torch.sqrt(1 - p[f] ** 2) * math.sqrt(self.dim / 2)
                    columns.append(taken * weight)
        return torch.stack(columns, dim=-1)
