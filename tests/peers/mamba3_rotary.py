import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posenc.attention import attend
from posenc.encoding import Context
from posenc.encodings import Mamba3Rotary
from posenc.testing.agreement import Case, peer
from tests.peers._layers import set_alike


@peer("mamba3_rotary", "torch")
def softmax_attention() -> Iterator[Case]:
    """What angle_dt.py and mamba3_siso_fwd.py of state-spaces/mamba turn by, in attention"""
    heads, dim, length, width = 4, 16, 60, 24
    encoding = Mamba3Rotary(width, heads, dim).double()
    time, turn = nn.Linear(width, heads).double(), nn.Linear(width, dim // 4, bias=False).double()
    q, k, v = torch.randn(3, 2, heads, length, dim, dtype=torch.float64)

    def ours(x: Tensor) -> Tensor:
        return attend(q, k, v, encoding, causal=True, context=Context(x))

    def theirs(x: Tensor) -> Tensor:
        own = F.softplus(time(x))[..., None] * (math.pi * turn(x).tanh())[:, :, None]
        # Folded into one turn, and no turn for the pairs that have no angle.
        angle = own.cumsum(1).transpose(1, 2) % (2 * math.pi)
        angle = F.pad(angle, (0, dim // 2 - angle.shape[-1]))
        turned = []
        for y in (q, k):
            one, two = y.view(*y.shape[:3], dim // 2, 2).unbind(-1)
            cos, sin = angle.cos(), angle.sin()
            joined = torch.stack((one * cos - two * sin, one * sin + two * cos), dim=-1)
            turned.append(joined.flatten(-2))
        return F.scaled_dot_product_attention(turned[0], turned[1], v, is_causal=True)

    yield Case(
        f"{heads} heads of {dim}, length {length}",
        ours,
        theirs,
        [torch.randn(2, length, width, dtype=torch.float64)],
        [
            set_alike(encoding.get_parameter("time.weight"), time.weight),
            set_alike(encoding.get_parameter("time.bias"), time.bias),
            set_alike(encoding.get_parameter("turn.weight"), turn.weight),
        ],
    )
