from collections.abc import Iterator, Sequence
from typing import Literal, get_args

import torch
from jaxtyping import Float64
from torch import Tensor

from posenc.encoding import Encoding, Tags
from posenc.encodings._absolute import Absolute, Merge
from posenc.encodings._grid import by_axis, grid_for, grid_of, reference_along
from posenc.encodings.sinusoidal import Sinusoidal
from posenc.errors import SettingError, is_whole, listed, one_of, positive, whole
from posenc.positions import Positions

Waves = Literal["half", "interleaved", "apart"]


class GridSinusoidal(Absolute):
    """Sines and cosines of rows and columns, side by side, added to the embeddings.

        PE[token] = [S(position[token, a]) for a in order],   S is Sinusoidal(width of a, base)

    order says which axis comes first, widths how many columns each takes, in that order; None:
    rows before columns, and equal shares. layout "half" puts the sines of an axis before its
    cosines, "interleaved" in turns, "apart" all sines of all axes before all cosines. denominator
    is as in Sinusoidal; "tensor2tensor" does not come interleaved. In published code:

        MAE              order=(1, 0), columns first; in transformers 5 rows come first
        big_vision       order=(1, 0), denominator="tensor2tensor"; tensor2tensor has rows first
        DETR             layout="interleaved", at rows and columns that count from 1 or,
                         normalised, at 2 * pi * (i + 1) / (n + 1e-6)
        timm             layout="apart", or "half" where it calls sine and cosine interleaved
        V-JEPA           axes=3, widths=(dim/2, dim/4, dim/4)

    Positions are (b, t, axes), as of Positions.grid, or one coordinate per token where grid tells
    the sizes of the axes, as in AxialRotary. In these models a token of the class has no vector:
    embed the patches before it joins them. merge is as in Sinusoidal. Raises SettingError for an
    order that is none of the axes, widths that are odd or do not add up to dim, and what Sinusoidal
    raises; PositionsError for one coordinate without a grid, or another number of them.

    Source: He et al. 2021, arXiv:2111.06377, and its code; Carion et al. 2020, arXiv:2005.12872.
    """

    name = "grid_sinusoidal"
    paper = "arXiv:2111.06377"
    tags = Tags(comparable="text has no rows and columns")

    def __init__(
        self,
        dim: int,
        axes: int = 2,
        grid: Sequence[int] | None = None,
        base: float = 10_000.0,
        layout: Waves = "half",
        order: Sequence[int] | None = None,
        widths: Sequence[int] | None = None,
        denominator: Literal["paper", "tensor2tensor"] = "paper",
        merge: Merge = "add",
    ) -> None:
        whole("GridSinusoidal", dim=dim, axes=axes)
        positive("GridSinusoidal", base=base)
        super().__init__(dim, merge)
        one_of("GridSinusoidal", get_args(Waves), layout=layout)
        self.dim, self.axes, self.base = dim, axes, base
        self.layout: Waves = layout
        self.denominator: Literal["paper", "tensor2tensor"] = denominator
        self.grid = grid_of("GridSinusoidal", axes, grid)
        self.order = None if order is None else listed("GridSinusoidal", order=order)
        self.widths = None if widths is None else listed("GridSinusoidal", widths=widths)
        self._blocks = self._checked()
        for _, width in self._blocks:
            self._waves(width)

    def _checked(self) -> list[tuple[int, int]]:
        """The axis and the width of each block of columns."""
        order = tuple(range(self.axes)) if self.order is None else self.order
        if not all(map(is_whole, order)) or sorted(order) != list(range(self.axes)):
            raise SettingError(
                f"GridSinusoidal(axes={self.axes}, order={order}): each axis stands once, "
                f"a permutation of {tuple(range(self.axes))}"
            )
        widths = self.widths or (self.dim // self.axes,) * self.axes
        even = all(is_whole(width) and width % 2 == 0 for width in widths)
        if len(widths) != self.axes or not even or sum(widths) != self.dim:
            raise SettingError(
                f"GridSinusoidal(dim={self.dim}, axes={self.axes}, widths={widths}): widths are "
                f"{self.axes} even numbers, one for each axis, that add up to dim"
            )
        return list(zip(order, widths, strict=True))

    @classmethod
    def for_model(cls, *, model_dim: int, max_length: int, **_: object) -> Encoding:
        half = model_dim // 4 * 2
        return cls(model_dim, grid=grid_for(max_length), widths=(half, model_dim - half))

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(16, grid=(3, 4))
        yield cls(16, grid=(3, 4), base=100.0, layout="interleaved", order=(1, 0))
        yield cls(16, axes=3, grid=(2, 2, 3), layout="apart", widths=(8, 4, 4), merge="concat")
        yield cls(12, grid=(2, 3), denominator="tensor2tensor", merge="multiply")

    def _waves(self, width: int) -> Sinusoidal:
        layout = "interleaved" if self.layout == "interleaved" else "half"
        return Sinusoidal(width, self.base, layout, self.denominator)

    def vectors(self, positions: Positions) -> Float64[Tensor, "#b t c"]:
        tokens = by_axis(self, positions.queries.position, self.grid)
        blocks = [self._waves(width).table(tokens[..., axis]) for axis, width in self._blocks]
        if self.layout == "apart":
            halves = [block.chunk(2, dim=-1) for block in blocks]
            blocks = [sines for sines, _ in halves] + [cosines for _, cosines in halves]
        return torch.cat(blocks, dim=-1)

    def reference_vectors(
        self, positions: Float64[Tensor, "b t *axes"]
    ) -> Float64[Tensor, "b t c"]:
        columns = []
        for block, (axis, width) in enumerate(self._blocks):
            at = reference_along(positions, axis, self.grid)
            last = width // 2 if self.denominator == "paper" else max(width // 2 - 1, 1)
            for i in range(width // 2):
                for half, wave in enumerate((torch.sin, torch.cos)):
                    places = {
                        "half": (block, half, i),
                        "interleaved": (block, i, half),
                        "apart": (half, block, i),
                    }
                    columns.append((places[self.layout], wave(at / self.base ** (i / last))))
        columns.sort(key=lambda column: column[0])
        return torch.stack([column for _, column in columns], dim=-1)
