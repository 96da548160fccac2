import math
from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor, nn

from posenc.encoding import Encoding
from posenc.encodings._grid_bias import GridBias
from posenc.encodings._weights import linear_in_dtype
from posenc.errors import whole
from posenc.torch_modes import autocast_off


class LogCPB(GridBias):
    """A small network of the difference of rows and columns, log-spaced, in place of a table.

        score[i, j] = scale * q[i] . k[j] + 16 * sigmoid(output(relu(hidden(g(y, H), g(x, W)))))[h]
        g(n, N) = sign(n) * log2(8 * |n| / (N - 1) + 1) / log2(8)
        y = row[i] - row[j],   x = column[i] - column[j],   grid = (H, W)

    hidden is a linear map of 2 numbers to `width` with a bias, output one to the heads without.
    grid is the window of training: a larger one reads differences beyond it through the same
    network, nearly where it was trained, as the logarithm grows slowly. Positions are as in
    SwinBias. The cosines and the trained scale of Swin v2's attention are no position: normalise q
    and k, multiply q by it, and attend with scale=1.0. Raises SettingError for heads or width < 1
    and a grid that is not two sizes; PositionsError as SwinBias.

    Source: Liu et al. 2022, arXiv:2111.09883, section 3.3, equation 4; 8, 16 and the sigmoid: its
    code.
    """

    name = "log_cpb"
    paper = "arXiv:2111.09883"

    def __init__(self, heads: int, grid: Sequence[int], width: int = 512) -> None:
        super().__init__(heads, grid)
        whole("LogCPB", width=width)
        self.width = width
        self.hidden = nn.Linear(2, width)
        self.output = nn.Linear(width, heads, bias=False)

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(4, (3, 4), width=8)
        yield cls(12, (2, 2), width=16)

    def biases(
        self, rows: Int[Tensor, "n"], columns: Int[Tensor, "n"], dtype: torch.dtype
    ) -> Float[Tensor, "h n"]:
        steps = -torch.stack((rows, columns), dim=-1).double()
        sizes = steps.new_tensor(self.grid)
        far = 8 * steps.abs() / (sizes - 1).clamp(min=1) + 1
        at = steps.sign() * far.log2() / math.log2(8)
        at = at.to(torch.promote_types(self.output.weight.dtype, dtype))
        with autocast_off(at.device):
            hidden = linear_in_dtype(at, self.hidden).relu()
            return 16 * linear_in_dtype(hidden, self.output).sigmoid().T

    def reference_biases(
        self, rows: Float64[Tensor, "b tq tk"], columns: Float64[Tensor, "b tq tk"]
    ) -> Float64[Tensor, "b h tq tk"]:
        inputs = []
        for step, size in zip((-rows, -columns), self.grid, strict=True):
            share = 8 * step / max(size - 1, 1)
            inputs.append(torch.sign(share) * torch.log(torch.abs(share) + 1) / math.log(8))
        total: Tensor | float = 0.0
        for unit in range(self.width):
            weights = self.hidden.weight[unit].double()
            x = inputs[0] * weights[0] + inputs[1] * weights[1] + self.hidden.bias[unit].double()
            out = self.output.weight[:, unit].double()[:, None, None]
            total = total + torch.relu(x)[:, None] * out
        return 16 / (1 + torch.exp(-torch.as_tensor(total)))
