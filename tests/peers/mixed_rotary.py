from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from posenc.attention import attend
from posenc.encodings import MixedRotary
from posenc.positions import Positions
from posenc.testing.agreement import Case, peer


@peer("mixed_rotary", "torch")
def attention_of_rope_vit() -> Iterator[Case]:
    """What naver-ai/rope-vit's models/vit_rope.py computes, in own words: a class token in front"""
    for height, width, heads, dim in ((3, 5, 4, 12), (1, 1, 12, 64), (6, 4, 2, 64)):
        positions = Positions.grid(height, width, leading=1)
        ours = _Ours(MixedRotary(dim, heads), positions)
        shape = (2, heads, 1 + height * width, dim)
        yield Case(
            f"{height} x {width} patches, {heads} heads of {dim}",
            # Their parameter has columns before rows.
            lambda f, *qkv, ours=ours: functional_call(
                ours, {"encoding.frequency": f.flip(0)}, qkv
            ),
            lambda f, q, k, v, size=(height, width): _theirs(f, q, k, v, *size),
            [
                torch.randn(2, heads, dim // 2, dtype=torch.float64),
                *(torch.randn(shape, dtype=torch.float64) for _ in range(3)),
            ],
        )


class _Ours(nn.Module):
    """Attention as a module, so that functional_call can put frequencies in."""

    def __init__(self, encoding: MixedRotary, positions: Positions) -> None:
        super().__init__()
        self.encoding, self.positions = encoding, positions

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attend(q, k, v, self.encoding, positions=self.positions)


def _theirs(f: Tensor, q: Tensor, k: Tensor, v: Tensor, height: int, width: int) -> Tensor:
    """Patches are multiplied by complex numbers of their angles, the class token is not."""
    index = torch.arange(height * width)
    columns, rows = (index % width).double(), (index // width).double()
    angles = columns[:, None] * f[0, :, None] + rows[:, None] * f[1, :, None]
    turn = torch.polar(torch.ones_like(angles), angles)

    def turned(x: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x[:, :, 1:].unflatten(-1, (-1, 2)))
        return torch.cat((x[:, :, :1], torch.view_as_real(pairs * turn).flatten(-2)), dim=2)

    return F.scaled_dot_product_attention(turned(q), turned(k), v)
