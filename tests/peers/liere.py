from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from posenc.attention import attend
from posenc.encodings import LieRE
from posenc.positions import Positions
from posenc.testing.agreement import Case, peer


@peer("liere", "torch")
def attention_of_liere() -> Iterator[Case]:
    """What models/rope_vit.py of StanfordMIMI/LieRE computes, in own words, behind a class token"""
    for size, heads, own, dim, block in (
        ((3, 3), 4, 1, 12, None),
        ((4, 4), 2, 2, 10, 4),
        ((2, 2, 2), 2, 1, 8, 8),
    ):
        yield _case(size, heads, own, dim, block)


def _case(size: tuple[int, ...], heads: int, own: int, dim: int, block: int | None) -> Case:
    encoding = LieRE(
        dim, None if own == 1 else own, len(size), block=block, unit=size[0] - 1
    ).double()
    positions = Positions.grid(*size[-2:], frames=size[0] if len(size) > 2 else None, leading=1)
    ours, width = _Ours(encoding, positions), block or dim
    row, column = torch.triu_indices(width, width, 1)
    raw = torch.rand(len(size), own * (dim // width), width, width, dtype=torch.float64) * 6.28

    def with_upper(raw: Tensor, *qkv: Tensor) -> Tensor:
        upper = raw[..., row, column].unflatten(1, (own, -1))
        return functional_call(ours, {"encoding.upper": upper}, qkv)

    shape = (2, heads, 1 + torch.Size(size).numel(), dim)
    return Case(
        f"{' x '.join(map(str, size))} patches, {heads} heads of {dim} by blocks of {width}, "
        f"{'shared' if own == 1 else 'for each head'}",
        with_upper,
        lambda raw, q, k, v: _theirs(raw, q, k, v, size, own),
        [raw, *(torch.randn(shape, dtype=torch.float64) for _ in range(3))],
    )


class _Ours(nn.Module):
    """Attention as a module, so that functional_call can put generators in."""

    def __init__(self, encoding: LieRE, positions: Positions) -> None:
        super().__init__()
        self.encoding, self.positions = encoding, positions

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attend(q, k, v, self.encoding, positions=self.positions)


def _theirs(
    raw: Tensor, q: Tensor, k: Tensor, v: Tensor, size: tuple[int, ...], own: int
) -> Tensor:
    """Patches from 0 to 1 along each side; one exponential for each patch, none for the class."""
    above = raw.triu(1)
    generators = above - above.mT
    sides = [torch.linspace(0, 1, steps, dtype=torch.float64) for steps in size]
    places = torch.cartesian_prod(*sides)
    turns = torch.matrix_exp((places[:, :, None, None, None] * generators).sum(1))
    one = torch.eye(raw.shape[-1], dtype=raw.dtype).expand_as(turns[:1])
    turns = torch.cat((one, turns)).unflatten(1, (own, -1)).transpose(0, 1)
    blocks, width = turns.shape[-3], turns.shape[-1]

    def turned(x: Tensor) -> Tensor:
        part = x[..., : blocks * width].unflatten(-1, (blocks, width))
        return torch.cat(((turns @ part[..., None]).flatten(-3), x[..., blocks * width :]), dim=-1)

    return F.scaled_dot_product_attention(turned(q), turned(k), v)
