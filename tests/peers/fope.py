import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from posenc.attention import attend
from posenc.encodings import FoPE
from posenc.testing.agreement import Case, peer


@peer("fope", "torch")
def attention_of_intern_s1_pro() -> Iterator[Case]:
    """What vLLM's fope.py makes of the queries and keys of Intern-S1-Pro, in own words"""
    for heads, key_heads, dim, length in ((4, 2, 16, 30), (6, 6, 80, 17), (3, 1, 10, 1)):
        encoding = FoPE(dim, 64, heads, key_heads, base=500.0, gain=0.5, seed=length).double()
        yield Case(
            f"{heads} heads of {dim}, {key_heads} key heads, {length} tokens",
            lambda q, k, v, encoding=encoding: attend(q, k, v, encoding, causal=True),
            lambda q, k, v, encoding=encoding: _theirs(q, k, v, encoding),
            [
                torch.randn(2, own, length, dim, dtype=torch.float64)
                for own in (heads, key_heads, key_heads)
            ],
        )


def _theirs(q: Tensor, k: Tensor, v: Tensor, settings: FoPE) -> Tensor:
    """cos and sin of each key head from a table over tokens, 1 in the pairs that are left out."""
    dim, length = q.shape[-1], q.shape[2]
    inv_freq = 1.0 / settings.base ** (torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    inv_freq = inv_freq[inv_freq > 2.0 * math.pi / settings.length]
    turns = torch.outer(torch.arange(length, dtype=torch.float64), inv_freq)
    waves = []
    for wave, mixed in ((turns.cos(), settings.cos_coef), (turns.sin(), settings.sin_coef)):
        table = torch.stack([wave @ of_head.double() for of_head in mixed])
        table = F.pad(table, (0, dim // 2 - table.shape[-1]), value=1.0)
        waves.append(torch.cat((table, table), dim=-1))
    cos, sin = waves

    def turned(x: Tensor) -> Tensor:
        # Heads of a group meet the table of their key head.
        grouped = x.unflatten(1, (cos.shape[0], -1))
        first, second = grouped.chunk(2, dim=-1)
        quarter = torch.cat((-second, first), dim=-1)
        return (grouped * cos[:, None] + quarter * sin[:, None]).flatten(1, 2)

    q, k = turned(q), turned(k)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
