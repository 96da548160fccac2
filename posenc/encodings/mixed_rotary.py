from collections.abc import Iterator, Sequence

from jaxtyping import Float64
from torch import Tensor, nn

from posenc.encoding import Encoding, Pairs, Tags
from posenc.encodings._grid import by_axis, grid_for, grid_of
from posenc.encodings._rotary import Angles, RotaryEncoding
from posenc.encodings._waves import angles_of, reference_angles_of, spectrum
from posenc.errors import SettingError, whole
from posenc.terms import Layout


class MixedRotary(RotaryEncoding):
    """RoPE-Mixed: each pair turns with all axes at once, by trained frequencies of each head.

        angle[token, h, i] = sum over axes of position[token, axis] * frequency[axis, h, i]

    so that a pair follows a slanted wave, where AxialRotary's follow rows or columns. frequency is
    (axes, heads, r), r = dim/2 pairs, in radians per step, and starts as AxialRotary's spectrum
    base**(-2j * axes / dim), turned in each head by a random rotation of the axes. Axes are (row,
    column); the authors' code keeps its parameter as (column, row). layout, grid and positions are
    as in AxialRotary. The parameter stays float32 when the module is cast down; angles are float64.
    The paper gives each layer frequencies of its own: Transformer(encoding=lambda layer: ...).
    Raises SettingError for a dim that is no multiple of 2 * axes, settings <= 0 and a grid of
    another length; PositionsError for one coordinate without a grid, or another number of them.

    Source: Heo et al. 2024, arXiv:2403.13298, section 3.2, and the authors' code.
    """

    name = "mixed_rotary"
    paper = "arXiv:2403.13298"
    sizes = ("head_dim", "heads")
    tags = Tags(norm_preserving=True, comparable="text has no rows and columns")
    keep_float32 = ("frequency",)

    def __init__(
        self,
        dim: int,
        heads: int,
        axes: int = 2,
        grid: Sequence[int] | None = None,
        base: float = 10.0,
        layout: Layout = "interleaved",
    ) -> None:
        super().__init__(dim, base, layout)
        whole("MixedRotary", heads=heads, axes=axes)
        if dim % (2 * axes):
            raise SettingError(
                f"MixedRotary(dim={dim}, axes={axes}): each axis starts with as many pairs, "
                f"so dim must be a multiple of {2 * axes}"
            )
        self.heads, self.axes = heads, axes
        self.grid = grid_of("MixedRotary", axes, grid)
        self.frequency = nn.Parameter(spectrum(heads, axes, dim // 2, base))

    @classmethod
    def for_model(cls, *, head_dim: int, heads: int, max_length: int, **_: object) -> Encoding:
        return cls(head_dim, heads, grid=grid_for(max_length))

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(16, heads=4, grid=(3, 4))
        yield cls(12, heads=4, axes=3, grid=(2, 2, 3), base=100.0, layout="half")

    def angles(self, coordinates: Tensor) -> Angles:
        return angles_of(by_axis(self, coordinates, self.grid), self.frequency)

    def reference_angles(self, at: Pairs) -> Float64[Tensor, "b h tq tk r"]:
        return reference_angles_of(at, self.frequency.double(), self.grid)
