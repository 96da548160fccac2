from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posenc.attention import attend
from posenc.encoding import Context
from posenc.encodings import SelectiveRotary
from posenc.testing.agreement import Case, peer
from tests.peers._layers import set_alike

LENGTH, WIDTH, HEADS, DIM, RANK = 60, 24, 4, 6, 5


@peer(
    "selective_rotary",
    "torch",
    gradient=1e-11,
    cap="gradients of early steps are sums over all later tokens, in another order here and there",
)
def softmax_attention() -> Iterator[Case]:
    """What modules/rotary.py of timurcarstensen/selective-rope does, written again, in attention"""
    for gate in (False, True):
        encoding = SelectiveRotary(WIDTH, HEADS, DIM, RANK, 4, gate).double()
        pairs = HEADS * DIM // 2
        down, up = nn.Linear(WIDTH, RANK, bias=False), nn.Linear(RANK, pairs, bias=False)
        conv = nn.Conv1d(pairs, pairs, 4, groups=pairs, padding=3, bias=False)
        opening = nn.Linear(WIDTH, HEADS)
        layers = nn.ModuleList([down, up, conv, opening]).double()
        q, k, v = torch.randn(3, 2, HEADS, LENGTH, DIM, dtype=torch.float64)

        def ours(x: Tensor, own=encoding, q=q, k=k, v=v) -> Tensor:
            return attend(q, k, v, own, causal=True, context=Context(x))

        def theirs(x: Tensor, parts=layers, gate=gate, q=q, k=k, v=v) -> Tensor:
            down, up, conv, opening = parts
            heads = x.view(*x.shape[:2], HEADS, -1)
            unit = heads * torch.rsqrt(heads.square().sum(-1, keepdim=True) + 1e-6)
            unit = unit.flatten(2)
            phi = conv(up(down(unit)).mT)[..., :LENGTH].mT.unflatten(-1, (HEADS, -1))
            if gate:
                phi = phi * opening(unit).sigmoid()[..., None]
            temperature = 1 / 500_000 ** (torch.arange(0, DIM, 2, dtype=x.dtype) / DIM)
            angle = (temperature * phi.cumsum(1)).transpose(1, 2)
            q, k = _halves(q, angle), _halves(k, angle)
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)

        weights = [("down.weight", down.weight), ("up.weight", up.weight), ("kernel", conv.weight)]
        if gate:
            weights += [("opening.weight", opening.weight), ("opening.bias", opening.bias)]
        yield Case(
            f"{HEADS} heads of {DIM}, length {LENGTH}, gate={gate}",
            ours,
            theirs,
            [torch.randn(2, LENGTH, WIDTH, dtype=torch.float64)],
            [set_alike(encoding.get_parameter(name), theirs) for name, theirs in weights],
        )


def _halves(x: Tensor, angle: Tensor) -> Tensor:
    one, two = x.chunk(2, dim=-1)
    cos, sin = angle.cos(), angle.sin()
    return torch.cat([one * cos - two * sin, one * sin + two * cos], dim=-1)
