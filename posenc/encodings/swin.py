from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor, nn

from posenc.encoding import Encoding
from posenc.encodings._grid_bias import GridBias
from posenc.errors import one_of


class SwinBias(GridBias):
    """One trained number per head and difference of rows and columns, within a window.

        score[i, j] = scale * q[i] . k[j] + weight[(y + H - 1) * (2W - 1) + x + W - 1, h]
        y = row[i] - row[j],   x = column[i] - column[j],   grid = (H, W)

    weight ((2H - 1) * (2W - 1), heads) is normal with deviation 0.02 at first; beyond the window,
    y and x stay at its ends. With class_token it has three rows more, for BEiT: from the first
    token of a sequence to patches, from patches to it, and from it to itself. Positions are
    (b, t, 2), as of Positions.grid(H, W), or of Positions.grid(H, W, leading=1) with class_token;
    one coordinate per token counts row by row, then behind the class's token. Windows are rows of a
    batch: cutting and shifting them is the model's. Raises SettingError for heads < 1 and a grid
    that is not two sizes; PositionsError for fractional positions and for a bare tensor, which does
    not tell how far it reaches.

    Source: Liu et al. 2021, arXiv:2103.14030, section 3.2, equation 4; the class's token: BEiT,
    arXiv:2106.08254, and its code.
    """

    name = "swin"
    paper = "arXiv:2103.14030"

    def __init__(self, heads: int, grid: Sequence[int], class_token: bool = False) -> None:
        super().__init__(heads, grid)
        one_of("SwinBias", (False, True), class_token=class_token)
        self.class_token = class_token
        self.rows = (2 * self.grid[0] - 1) * (2 * self.grid[1] - 1)
        self.weight = nn.Parameter(torch.randn(self.rows + 3 * class_token, heads) * 0.02)

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(4, (3, 4))
        yield cls(4, (2, 3), class_token=True)

    def biases(
        self, rows: Int[Tensor, "n"], columns: Int[Tensor, "n"], dtype: torch.dtype
    ) -> Float[Tensor, "h n"]:
        height, width = self.grid
        y, x = (-rows).clamp(1 - height, height - 1), (-columns).clamp(1 - width, width - 1)
        return self.weight.T[:, (y + height - 1) * (2 * width - 1) + x + width - 1]

    def class_biases(self) -> Float[Tensor, "h 3"]:
        return self.weight[self.rows :].T

    def reference_biases(
        self, rows: Float64[Tensor, "b tq tk"], columns: Float64[Tensor, "b tq tk"]
    ) -> Float64[Tensor, "b h tq tk"]:
        height, width = self.grid
        table = self.weight[: self.rows].view(2 * height - 1, 2 * width - 1, -1)
        y = torch.clamp(-rows.round().long(), 1 - height, height - 1)
        x = torch.clamp(-columns.round().long(), 1 - width, width - 1)
        return table[y + height - 1, x + width - 1].double().movedim(-1, 1)
