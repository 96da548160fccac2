import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from posenc.encoding import Encoding
from posenc.encodings._cumulated import CumulatedRotary
from posenc.encodings._weights import linear_in_dtype
from posenc.errors import even
from posenc.terms import Layout
from posenc.torch_modes import autocast_off


class Mamba3Rotary(CumulatedRotary):
    """Mamba-3's rotation, for attention: angles that tokens tell, over the time that they take.

        dt[t, h] = softplus(w[h] . x[t] + b[h])
        angle[t, h, i] = sum over l <= t of dt[l, h] * pi * tanh(v[i] . x[l])

    In radians. Pairs (2i, 2i + 1) of the first rotary_dim dimensions turn (None: half of
    head_dim, Mamba-3's rope_fraction of 0.5). b starts where softplus(b) lies between 0.001 and
    0.1. x is the input of the layer, of width dim (c): a call needs context=Context(x=...) and
    causal attention, and its queries are the last of the keys. Steps are made and summed in
    float64; Mamba-3's kernels fold the sum into 0 to 2 pi. The decay and the sum over two tokens
    that Mamba-3 has besides are not here. Raises SettingError for an odd head_dim or rotary_dim
    and settings <= 0, ShapeError for x of another width or of another number of tokens than the
    keys.

    Source: Lahoti et al. 2026, arXiv:2603.15569, and mamba_ssm/modules/mamba3.py and
    ops/triton/mamba3/angle_dt.py of the authors' state-spaces/mamba.
    """

    name = "mamba3_rotary"
    paper = "arXiv:2603.15569"
    layout: Layout = "interleaved"

    def __init__(self, dim: int, heads: int, head_dim: int, rotary_dim: int | None = None) -> None:
        half = max(2, even("Mamba3Rotary", "head_dim", head_dim) // 4 * 2)
        super().__init__(dim, heads, head_dim, half if rotary_dim is None else rotary_dim)
        self.time = nn.Linear(dim, heads)
        self.turn = nn.Linear(dim, self.rotated_dim // 2, bias=False)
        first = torch.empty(heads).uniform_(math.log(0.001), math.log(0.1)).exp()
        with torch.no_grad():
            self.time.bias.copy_(first.expm1().log())

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(16, heads=4, head_dim=4)
        yield cls(24, heads=4, head_dim=6, rotary_dim=6)

    def payload(self, x: Float[Tensor, "b t c"]) -> Float[Tensor, "b h r t"]:
        """By how much each token turns each pair of each head."""
        x = self.read(x)
        with autocast_off(x.device):
            time = -F.logsigmoid(-linear_in_dtype(x, self.time)).mT
            turn = math.pi * linear_in_dtype(x, self.turn).tanh().mT
            return time[:, :, None] * turn[:, None]

    def reference_steps(self, x: Tensor) -> Float[Tensor, "b h t r"]:
        time = (1 + (x @ self.time.weight.T + self.time.bias).exp()).log()
        turn = math.pi * torch.tanh(x @ self.turn.weight.T)
        return torch.einsum("bth,btr->bhtr", time, turn)
