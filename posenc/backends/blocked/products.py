"""Matrix products in which query heads share key heads, none of which is repeated.

Letters: b batch, h query heads, g key heads, r queries, c keys.
"""

from jaxtyping import Float
from torch import Tensor


def product(q: Float[Tensor, "b h r d"], k: Float[Tensor, "b g c d"]) -> Float[Tensor, "b h r c"]:
    """q . k of every pair: query heads of a key head are rows of one matrix."""
    return (_by_key_head(q, k.shape[1]) @ k.flatten(0, 1).mT).view(*q.shape[:3], k.shape[2])


def summed(p: Float[Tensor, "b h r c"], v: Float[Tensor, "b g c d"]) -> Float[Tensor, "b h r d"]:
    """The sum over keys of p times v."""
    return (_by_key_head(p, v.shape[1]) @ v.flatten(0, 1)).view(*p.shape[:3], v.shape[-1])


def _by_key_head(x: Tensor, key_heads: int) -> Tensor:
    """(b, h, r, n) as (b g, r h / g, n)."""
    b, h, r, n = x.shape
    return x.reshape(b * key_heads, h // key_heads * r, n)
