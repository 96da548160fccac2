from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from posenc.encoding import Context, Encoding, Keys, Pairs, Queries, Scores, Tags
from posenc.encodings._grid import by_axis, grid_of
from posenc.encodings._rotary import Angles, RotaryEncoding
from posenc.encodings._skew import reference_skew, skew
from posenc.encodings._waves import angles_of, reference_angles_of, spectrum
from posenc.errors import SettingError, whole
from posenc.positions import Positions
from posenc.terms import Layout, Term, Transform


class CayleySTRING(RotaryEncoding):
    """Cayley-STRING: RoPE of trained frequencies, in an orthogonal basis that each head learns.

        P = (I - S) (I + S)^-1,   score = scale * RoPE(x) P q . RoPE(y) P k
        angle[h, i] = sum over axes of x[axis] * frequency[axis, h, i]

    with S skew-symmetric, trained by the numbers above its diagonal, and angle in radians, by which
    RoPE turns pair i of head h. Every encoding that multiplies q and k by matrices of their
    positions, and whose scores depend on differences alone, is of this form (the paper's theorems
    3.2 and 3.4); so is GRAPE's of several planes in a learned basis.
    In attention P could be part of the projections of q and k: what it changes is how they learn.
    The paper leaves open where training starts. Here frequency is RoPE's base**(-2i/dim), with
    several axes MixedRotary's (base 10 or 100 suits images), and S is normal noise of deviation
    dim**-0.5. axes, grid and positions are as in MixedRotary; tokens simply count where axes=1.
    layout is as in Rotary. Parameters stay float32 when the module is cast down; P and angles are
    float64. torch.export takes it, ONNX does not: it has no operator for the equations of P.
    Transformer(encoding=lambda layer: CayleySTRING(...)) gives each layer its own. Raises
    SettingError for an odd dim, more axes than pairs, settings <= 0 and a grid of another length,
    PositionsError for one coordinate without a grid, or another number of them.

    Source: Schenck et al. 2025, arXiv:2502.02562, equations 5, 9 and 10.
    """

    name = "cayley_string"
    paper = "arXiv:2502.02562"
    sizes = ("head_dim", "heads")
    tags = Tags(translation_invariant=True, norm_preserving=True)
    keep_float32 = ("upper", "frequency")

    def __init__(
        self,
        dim: int,
        heads: int,
        axes: int = 1,
        grid: Sequence[int] | None = None,
        base: float = 10_000.0,
        layout: Layout = "half",
    ) -> None:
        super().__init__(dim, base, layout)
        whole("CayleySTRING", heads=heads, axes=axes)
        if 2 * axes > dim:
            raise SettingError(
                f"CayleySTRING(dim={dim}, axes={axes}): as many pairs as axes are needed, "
                f"dim >= {2 * axes}"
            )
        self.heads, self.axes = heads, axes
        self.grid = grid_of("CayleySTRING", axes, grid)
        self.frequency = nn.Parameter(spectrum(heads, axes, dim // 2, base))
        self.upper = nn.Parameter(torch.randn(heads, dim * (dim - 1) // 2) * dim**-0.5)
        if axes > 1:
            # Tokens that count row by row are no translation apart where a row ends.
            self.tags = replace(
                self.tags,
                translation_invariant=False,
                comparable="text has no rows and columns",
            )

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(8, heads=4)
        yield cls(10, heads=4, axes=2, grid=(3, 4), base=10.0, layout="interleaved")

    def lower(
        self,
        positions: Positions,
        context: Context | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Term, ...]:
        basis = self.basis()[None, :, None, None].to(dtype)
        return Transform(basis, basis), self.rotation(positions)

    def basis(self) -> Float64[Tensor, "h d d"]:
        """P of each head."""
        s = skew(self.upper, self.dim)
        one = torch.eye(self.dim, dtype=s.dtype, device=s.device)
        # Both factors commute. Head by head, for torch solves batches of wide ones wrongly where it
        # has several threads (pytorch/pytorch#142815).
        return torch.stack([torch.linalg.solve(one + each, one - each) for each in s])

    def angles(self, coordinates: Tensor) -> Angles:
        return angles_of(by_axis(self, coordinates, self.grid), self.frequency)

    def reference_angles(self, at: Pairs) -> Float64[Tensor, "b h tq tk r"]:
        return reference_angles_of(at, self.frequency.double(), self.grid)

    def reference_scores(self, q: Queries, k: Keys, at: Pairs) -> Scores:
        s = reference_skew(self.upper.double(), self.dim)
        one = torch.eye(self.dim, dtype=s.dtype, device=s.device)
        basis = torch.stack([(one - each) @ torch.linalg.inv(one + each) for each in s])
        q, k = (torch.einsum("hij,bhtj->bhti", basis, x) for x in (q, k))
        return super().reference_scores(q, k, at)
