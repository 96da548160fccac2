import math
from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float64
from torch import Tensor

from posenc.encoding import Encoding, Pairs, Tags
from posenc.encodings._grid import by_axis, grid_for, grid_of, reference_along
from posenc.encodings._rotary import Angles, RotaryEncoding, angle_by_axis, geometric
from posenc.errors import SettingError, finite, listed, positive, shown, whole
from posenc.terms import Layout


class AxialRotary(RotaryEncoding):
    """RoPE in two or three dimensions: each axis turns its own share of the pairs.

        angle[token, i] = radians * position[token, axis] * base**(-2j / (dim/axes))

    with axis, j = divmod(i, n) and n = dim / (2 * axes) pairs for each axis, one axis after
    another. layout says which dimensions are pair i of the head: "half" (i, i + dim/2), as in
    Qwen2-VL; "interleaved" (2i, 2i + 1), a chunk of the head for each axis, as in
    rotary-embedding-torch. frequencies, dim/2 numbers, stand in for the powers of base: Pixtral
    deals out one spectrum,
    [base ** (-2 * (j * axes + axis) / dim) for axis in range(axes) for j in range(n)].

    Positions are (b, t, axes), as of Positions.grid(height, width). DINOv3 turns by radians=2*pi,
    with base=100, at coordinates in [-1, 1], Positions.grid(..., normalise="separate"); tokens of
    class and registers are at 0, where nothing turns. With grid, the sizes of the axes, one
    coordinate per token serves too: token i of grid=(height, width) is at (i // width, i % width),
    in rows that go on below the grid. Scores depend on differences along each axis; moving tokens
    along a row wraps. Raises SettingError for a dim that is no multiple of 2 * axes, a grid or
    frequencies of another length, settings <= 0; PositionsError for one coordinate without a
    grid, or another number of them.

    Source: Heo et al. 2024, arXiv:2403.13298, section 3.2, with pairs as in the authors' code;
    radians: Siméoni et al. 2025, arXiv:2508.10104, section 3.2, and its code.
    """

    name = "axial"
    paper = "arXiv:2403.13298"
    tags = Tags(norm_preserving=True, comparable="text has no rows and columns")

    def __init__(
        self,
        dim: int,
        axes: int = 2,
        grid: Sequence[int] | None = None,
        base: float = 10_000.0,
        layout: Layout = "half",
        frequencies: Sequence[float] | None = None,
        radians: float = 1.0,
    ) -> None:
        super().__init__(dim, base, layout)
        whole("AxialRotary", axes=axes)
        positive("AxialRotary", radians=radians)
        if dim % (2 * axes):
            raise SettingError(
                f"AxialRotary(dim={dim}, axes={axes}): each axis turns as many pairs, "
                f"so dim must be a multiple of {2 * axes}"
            )
        numbers = (
            None
            if frequencies is None
            else listed("AxialRotary", f"{dim // 2} numbers", frequencies=frequencies)
        )
        if numbers is not None and len(numbers) != dim // 2:
            raise SettingError(
                f"AxialRotary(dim={dim}, frequencies={shown(frequencies)}) got {len(numbers)} "
                f"frequencies: one for each pair is needed, {dim // 2} numbers, axis after axis"
            )
        for frequency in numbers or ():
            finite("AxialRotary", frequencies=frequency)
        self.axes, self.radians = axes, radians
        self.grid = grid_of("AxialRotary", axes, grid)
        self.frequencies = numbers

    @classmethod
    def for_model(cls, *, head_dim: int, max_length: int, **_: object) -> Encoding:
        return cls(head_dim, grid=grid_for(max_length))

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(16, grid=(3, 4))
        yield cls(12, axes=3, grid=(2, 2, 3), base=100.0, layout="interleaved")
        yield cls(8, grid=(3, 3), frequencies=(1.0, 0.01, 0.1, 0.001))
        yield cls(8, grid=(3, 4), base=100.0, radians=2 * math.pi)

    def angles(self, coordinates: Tensor) -> Angles:
        share, device = self.dim // (2 * self.axes), coordinates.device
        axis_of = [axis for axis in range(self.axes) for _ in range(share)]
        tokens = by_axis(self, coordinates, self.grid)
        if self.frequencies is None:
            frequencies = geometric(self.base, 2 * share, device).repeat(self.axes)
        else:
            frequencies = torch.tensor(self.frequencies, dtype=torch.float64, device=device)
        return angle_by_axis(tokens, axis_of, frequencies * self.radians, "AxialRotary")

    def reference_angles(self, at: Pairs) -> Float64[Tensor, "b 1 tq tk r"]:
        share = self.dim // (2 * self.axes)
        angles = []
        for axis in range(self.axes):
            q, k = (reference_along(x, axis, self.grid) for x in (at.q, at.k))
            back = q[:, None, :, None] - k[:, None, None, :]
            for j in range(share):
                frequency = self.base ** (-2 * j * self.axes / self.dim)
                if self.frequencies is not None:
                    frequency = self.frequencies[axis * share + j]
                angles.append(back * self.radians * frequency)
        return torch.stack(angles, dim=-1)
