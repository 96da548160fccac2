import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from posenc.encoding import Context, Encoding, Keys, Pairs, Queries, Scores, Tags
from posenc.encodings._grid import by_axis, grid_of, reference_along
from posenc.encodings._rotary import Angles, RotaryEncoding
from posenc.encodings._waves import angles_of, spectrum
from posenc.errors import SettingError, even, whole
from posenc.positions import Positions
from posenc.terms import Term, Transform


class CirculantSTRING(RotaryEncoding):
    """Circulant-STRING: queries and keys turned by exponentials of circulant matrices.

        R(x)  = exp(sum over axes of x[axis] * (C[axis] - C[axis]^T)),   score as of R(x) q . R(y) k
        C[i, j] = c[(i - j) % block]
        angle[m] = sum over axes of x[axis] * sum over s of 2 * c[s] sin(2 pi m s / block)

    with c, `block` trained numbers per axis, head and block of dimensions (None: one of all dim;
    the paper tries 4 to 64). All circulants have the Fourier basis in common: there R is a RoPE
    whose pair m, below block/2, turns by angle[m] radians, while mean and alternating sum pass. So
    the terms are that fixed basis and one rotation. The paper leaves open where training starts.
    Here c is such that the pairs turn by RoPE's frequencies of this base, with several axes by
    MixedRotary's. axes, grid and positions are as in MixedRotary; tokens simply count where axes=1.
    Scores depend on differences of positions alone. The parameter stays float32 when the module is
    cast down; angles are float64. Raises SettingError for an odd dim or block, a block that does
    not divide dim, more axes than pairs, settings <= 0 and a grid of another length, PositionsError
    for one coordinate without a grid, or another number of them.

    Source: Schenck et al. 2025, arXiv:2502.02562, equations 6 and 11, and theorem 3.5.
    """

    name = "circulant_string"
    paper = "arXiv:2502.02562"
    sizes = ("head_dim", "heads")
    tags = Tags(translation_invariant=True, norm_preserving=True)
    keep_float32 = ("c",)

    def __init__(
        self,
        dim: int,
        heads: int,
        axes: int = 1,
        grid: Sequence[int] | None = None,
        block: int | None = None,
        base: float = 10_000.0,
    ) -> None:
        super().__init__(dim, base, "interleaved")
        whole("CirculantSTRING", heads=heads, axes=axes)
        if 2 * axes > dim:
            raise SettingError(
                f"CirculantSTRING(dim={dim}, axes={axes}): as many pairs as axes are needed, "
                f"dim >= {2 * axes}"
            )
        self.heads, self.axes, self.block = heads, axes, block
        self.grid = grid_of("CirculantSTRING", axes, grid)
        self._size = even("CirculantSTRING", "block", dim if block is None else block)
        if dim % self._size:
            raise SettingError(f"CirculantSTRING(dim={dim}, block={block}): block must divide dim")
        waves = spectrum(heads, axes, dim // 2, base).unflatten(-1, (-1, self._size // 2))
        # The inverse of what `angles` sums.
        c = waves.double() @ self._sines(waves.device).mT / (2 * self._size)
        self.c = nn.Parameter(c.float())
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
        yield cls(12, heads=4, axes=2, grid=(3, 4), block=6, base=10.0)

    def lower(
        self,
        positions: Positions,
        context: Context | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Term, ...]:
        blocks = self.dim // self._size
        basis = self._basis(positions.device).to(dtype).expand(1, 1, 1, blocks, -1, -1)
        return Transform(basis, basis), self.rotation(positions)

    def angles(self, coordinates: Tensor) -> Angles:
        tokens = by_axis(self, coordinates, self.grid)
        frequency = self.c.double() @ self._sines(self.c.device)
        return angles_of(tokens, frequency.flatten(-2))

    def _sines(self, device: torch.device) -> Float64[Tensor, "e p"]:
        """2 sin(2 pi m s / e) of each number s and pair m = 1 .. e/2, of which the last rests."""
        size = self._size
        s, m = torch.arange(size, device=device), torch.arange(1, size // 2 + 1, device=device)
        # Whole periods are taken off before there are fractions; half of one is none.
        turns = (s[:, None] * m % size).double() * (2 * math.pi / size)
        return torch.where(2 * m == size, 0.0, 2 * turns.sin())

    def _basis(self, device: torch.device) -> Float64[Tensor, "e e"]:
        """Cosines and sines of 1 .. e/2 - 1 periods in turn, the alternating row and the mean."""
        size = self._size
        i, m = torch.arange(size, device=device), torch.arange(1, size // 2 + 1, device=device)
        turns = (m[:, None] * i % size).double() * (2 * math.pi / size)
        rests = (2 * m == size)[:, None]
        cosines = torch.where(rests, turns.cos() / 2**0.5, turns.cos())
        sines = torch.where(rests, 2**-0.5, turns.sin())
        return (2 / size) ** 0.5 * torch.stack((cosines, sines), dim=1).flatten(0, 1)

    def reference_scores(self, q: Queries, k: Keys, at: Pairs) -> Scores:
        turned = self._reference_turned(q, at.q), self._reference_turned(k, at.k)
        return at.scale * torch.einsum("bhid,bhjd->bhij", *turned)

    def _reference_turned(self, x: Queries, places: Float64[Tensor, "b t *axes"]) -> Queries:
        """Token by token and block by block, by the series of the exponential."""
        out, size = x.clone(), self._size
        c = self.c.double()
        along = [reference_along(places, axis, self.grid) for axis in range(self.axes)]
        shifts = [[(i - j) % size for j in range(size)] for i in range(size)]
        for token in range(x.shape[2]):
            for n in range(self.dim // size):
                part = slice(n * size, (n + 1) * size)
                total = torch.zeros((), dtype=c.dtype, device=c.device)
                for where, own in zip(along, c, strict=True):
                    circulant = own[:, n, shifts]
                    total = total + where[:, None, token, None, None] * (circulant - circulant.mT)
                turn = torch.linalg.matrix_exp(total)
                out[:, :, token, part] = (turn @ x[:, :, token, part, None])[..., 0]
        return out
