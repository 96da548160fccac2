import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from posenc.encoding import Context, Encoding, Keys, Pairs, Queries, Scores, Tags
from posenc.encodings._grid import by_axis, grid_of, reference_along
from posenc.encodings._skew import reference_skew, skew
from posenc.errors import SettingError, given, positive, whole
from posenc.positions import Positions
from posenc.terms import Term, Transform


class LieRE(Encoding):
    """LieRE: queries and keys turned by the exponential of trained skew-symmetric matrices.

        R(x) = exp(sum over axes of x[axis] / unit * A[axis]),   score = scale * R(x) q . R(y) k

    A[axis], one for each block of `block` dimensions (None: one of all dim), is upper - upper^T of
    trained numbers that start uniform in 0 to 2 pi; dimensions that fill no block pass. heads None
    shares them, else each head has its own. unit is how many steps are 1: the authors' positions go
    from 0 to 1 over the image of the training, so that unit is its side less 1. axes, grid and
    positions are as in MixedRotary, and tokens simply count where axes=1. On one axis, or by blocks
    of 2 (RoPE-Mixed), scores depend on differences of positions alone; matrices of several axes do
    not commute, and scores depend on places too. The lowered terms hold dim * block numbers per
    token, of each head that has its own. upper stays float32 when the module is cast down;
    exponentials are float64. torch.export takes it, ONNX does not: it has no operator for them.
    Transformer(encoding=lambda layer: LieRE(...)) gives each layer its own. Raises SettingError for
    settings <= 0, a block of 1 or above dim and a grid of another length, PositionsError for one
    coordinate without a grid, or another number of them.

    Source: Ostmeier et al. 2024, arXiv:2406.10322, and the authors' code, StanfordMIMI/LieRE;
    what does not commute: Schenck et al. 2025, arXiv:2502.02562, section 2.
    """

    name = "liere"
    family = "rotary"
    paper = "arXiv:2406.10322"
    sizes = ("head_dim",)
    tags = Tags(translation_invariant=True, norm_preserving=True)
    keep_float32 = ("upper",)

    def __init__(
        self,
        dim: int,
        heads: int | None = None,
        axes: int = 1,
        grid: Sequence[int] | None = None,
        block: int | None = None,
        unit: float = 1.0,
    ) -> None:
        super().__init__()
        whole("LieRE", dim=dim, axes=axes, **given(heads=heads, block=block))
        positive("LieRE", unit=unit)
        size = dim if block is None else block
        if not 2 <= size <= dim:
            raise SettingError(
                f"LieRE(dim={dim}, block={block}): a block turns 2 to dim={dim} dimensions"
            )
        self.dim = self.head_dim = dim
        self.heads, self.axes, self.block, self.unit = heads, axes, block, unit
        self.grid = grid_of("LieRE", axes, grid)
        self._size = size
        shape = axes, heads or 1, dim // size, size * (size - 1) // 2
        self.upper = nn.Parameter(torch.rand(shape) * 2 * math.pi)
        if axes > 1:
            self.tags = replace(
                self.tags,
                translation_invariant=False,
                comparable="text has no rows and columns",
            )

    @classmethod
    def for_model(cls, *, head_dim: int, train_length: int, **_: object) -> Encoding:
        return cls(head_dim, block=min(8, head_dim), unit=max(train_length - 1, 1))

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(10, block=4, unit=8.0)
        yield cls(6, heads=4, axes=2, grid=(3, 4), unit=3.0)

    def lower(
        self,
        positions: Positions,
        context: Context | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Term, ...]:
        q, k = positions.queries.position, positions.keys.position
        of_keys = self.matrices(k).to(dtype)
        return (Transform(of_keys if q is k else self.matrices(q).to(dtype), of_keys),)

    def matrices(self, coordinates: Tensor) -> Float64[Tensor, "#b #h t n e e"]:
        """R of each token at coordinates (t,), (b, t) or (b, t, axes), by blocks."""
        tokens = by_axis(self, coordinates, self.grid).double() / self.unit
        generators = skew(self.upper, self._size)
        sums = torch.einsum("bta,ahnij->bhtnij", tokens, generators)
        return torch.linalg.matrix_exp(sums.contiguous())

    def reference_scores(self, q: Queries, k: Keys, at: Pairs) -> Scores:
        turned = self._reference_turned(q, at.q), self._reference_turned(k, at.k)
        return at.scale * torch.einsum("bhid,bhjd->bhij", *turned)

    def _reference_turned(self, x: Queries, places: Float64[Tensor, "b t *axes"]) -> Queries:
        """Token by token and block by block, by the series of the exponential."""
        out, size = x.clone(), self._size
        generators = reference_skew(self.upper.double(), size)
        along = [reference_along(places, axis, self.grid) for axis in range(self.axes)]
        for token in range(x.shape[2]):
            for n in range(self.dim // size):
                part = slice(n * size, (n + 1) * size)
                total = sum(
                    where[:, None, token, None, None] / self.unit * generator[:, n]
                    for where, generator in zip(along, generators, strict=True)
                )
                turn = torch.linalg.matrix_exp(torch.as_tensor(total))
                out[:, :, token, part] = (turn @ x[:, :, token, part, None])[..., 0]
        return out
