import math
from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float64
from torch import Tensor

from posenc.encoding import Encoding, Pairs, Tags
from posenc.encodings._rotary import Angles, RotaryEncoding, angle_by_axis, geometric
from posenc.errors import PositionsError, SettingError, positive
from posenc.terms import Layout


class AxialRotary(RotaryEncoding):
    """RoPE in two or three dimensions: each axis turns its own share of the pairs.

        angle[token, i] = position[token, axis] * base**(-2j / (dim/axes)),   axis, j = divmod(i, n)

    with n = dim / (2 * axes) pairs for each axis, one axis after another. layout says which
    dimensions are pair i of the head: "half" (i, i + dim/2), as in Qwen2-VL; "interleaved"
    (2i, 2i + 1), a chunk of the head for each axis, as in rotary-embedding-torch. frequencies,
    dim/2 numbers in radians per step, stand in for those of base: Pixtral deals out one spectrum,
    [base ** (-2 * (j * axes + axis) / dim) for axis in range(axes) for j in range(n)].

    Positions are (b, t, axes). With grid, the sizes of the axes, one coordinate per token serves
    too: token i of grid=(height, width) is at (i // width, i % width), in rows that go on below
    the grid. Scores depend on differences along each axis; moving tokens along a row wraps.
    Raises SettingError for a dim that is no multiple of 2 * axes, a grid or frequencies of another
    length; PositionsError for one coordinate without a grid, or another number of them.

    Source: Heo et al. 2024, arXiv:2403.13298, section 3.2, with pairs as in the authors' code.
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
    ) -> None:
        super().__init__(dim, base, layout)
        positive("AxialRotary", axes=axes)
        if dim % (2 * axes):
            raise SettingError(
                f"AxialRotary(dim={dim}, axes={axes}): each axis turns as many pairs, "
                f"so dim must be a multiple of {2 * axes}"
            )
        if grid is not None and (len(grid) != axes or min(grid) < 1):
            raise SettingError(
                f"AxialRotary(axes={axes}, grid={tuple(grid)}): grid gives the size of each axis, "
                f"{axes} numbers >= 1"
            )
        if frequencies is not None and len(frequencies) != dim // 2:
            raise SettingError(
                f"AxialRotary(dim={dim}) got {len(frequencies)} frequencies: "
                f"one for each pair is needed, {dim // 2} numbers, axis after axis"
            )
        self.axes = axes
        self.grid = None if grid is None else tuple(grid)
        self.frequencies = None if frequencies is None else tuple(frequencies)

    @classmethod
    def for_model(cls, *, head_dim: int, max_length: int, **_: object) -> Encoding:
        width = math.isqrt(max_length - 1) + 1
        return cls(head_dim, grid=(-(-max_length // width), width))

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(16, grid=(3, 4))
        yield cls(12, axes=3, grid=(2, 2, 3), base=100.0, layout="interleaved")
        yield cls(8, grid=(3, 3), frequencies=(1.0, 0.01, 0.1, 0.001))

    def angles(self, coordinates: Tensor) -> Angles:
        share, device = self.dim // (2 * self.axes), coordinates.device
        axis_of = [axis for axis in range(self.axes) for _ in range(share)]
        tokens = coordinates if coordinates.ndim == 3 else self._unravelled(coordinates)
        if self.frequencies is None:
            frequencies = geometric(self.base, 2 * share, device).repeat(self.axes)
        else:
            frequencies = torch.tensor(self.frequencies, dtype=torch.float64, device=device)
        return angle_by_axis(tokens, axis_of, frequencies, "AxialRotary")

    def _unravelled(self, index: Tensor) -> Tensor:
        """The coordinates (1|b, t, axes) of tokens that count row by row."""
        if self.grid is None:
            raise PositionsError(
                f"{self!r} reads {self.axes} coordinates per token, but the positions have shape "
                f"{tuple(index.shape)}: give Positions.build(ids=...) of shape (b, t, "
                f"{self.axes}), or the encoding the sizes of its axes, grid=(height, width)"
            )
        index, sizes = index.view(-1, index.shape[-1]), self.grid
        steps = [index // math.prod(sizes[axis + 1 :]) for axis in range(self.axes)]
        # The first axis never wraps, so that tokens beyond the grid have places of their own.
        wrapped = [step % size for step, size in zip(steps[1:], sizes[1:], strict=True)]
        return torch.stack([steps[0], *wrapped], dim=-1)

    def reference_angles(self, at: Pairs) -> Float64[Tensor, "b 1 tq tk r"]:
        share = self.dim // (2 * self.axes)

        def along(positions: Tensor, axis: int) -> Tensor:
            if positions.ndim == 3:
                return positions[..., axis]
            assert self.grid is not None
            for size in reversed(self.grid[axis + 1 :]):
                positions = torch.floor(positions / size)
            row = torch.floor(positions / self.grid[axis]) if axis else 0.0
            return positions - row * self.grid[axis]

        angles = []
        for axis in range(self.axes):
            back = along(at.q, axis)[:, None, :, None] - along(at.k, axis)[:, None, None, :]
            for j in range(share):
                frequency = self.base ** (-2 * j * self.axes / self.dim)
                if self.frequencies is not None:
                    frequency = self.frequencies[axis * share + j]
                angles.append(back * frequency)
        return torch.stack(angles, dim=-1)
