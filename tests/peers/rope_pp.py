from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from posenc.attention import attend
from posenc.encodings import RoPEPlusPlus
from posenc.testing.agreement import Case, peer


@peer("rope_pp", "torch")
def attention_of_rope_pp() -> Iterator[Case]:
    """What OpenMOSS/rope_pp's modeling_llama_rope_pp.py computes, in own words: queries doubled"""
    for heads, key_heads, dim, length in ((2, 2, 10, 17), (4, 2, 16, 30), (3, 1, 80, 1)):
        encoding = RoPEPlusPlus(dim, 2 * heads)
        yield Case(
            f"{2 * heads} heads of {dim} out of {heads}, {key_heads} key heads, {length} tokens",
            lambda q, k, v, encoding=encoding: attend(
                q.repeat_interleave(2, dim=1), k, v, encoding, causal=True
            ),
            _theirs,
            [
                torch.randn(2, own, length, dim, dtype=torch.float64)
                for own in (heads, key_heads, key_heads)
            ],
        )


def _theirs(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The imaginary query is q sin - (q turned by a quarter) cos, stacked behind the real one."""
    dim = q.shape[-1]
    frequency = 10_000.0 ** -(torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    angle = torch.outer(torch.arange(q.shape[2]), frequency).repeat(1, 2)
    cos, sin = angle.cos(), angle.sin()
    real = q * cos + _quarter(q) * sin
    imaginary = q * sin - _quarter(q) * cos
    both = torch.stack((real, imaginary), dim=2).flatten(1, 2)
    turned = k * cos + _quarter(k) * sin
    return F.scaled_dot_product_attention(both, turned, v, is_causal=True, enable_gqa=True)


def _quarter(x: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)
