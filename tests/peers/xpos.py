from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posenc.attention import attend
from posenc.encodings import XPos
from posenc.testing.agreement import Case, peer
from tests.peers._layers import joined, split

# Small enough to be felt within few tokens.
SCALE_BASE = 16


@peer("xpos", "x-transformers")
def layer_of_x_transformers() -> Iterator[Case]:
    """Attention with RotaryEmbedding(use_xpos=True), the whole layer, with memories before x"""
    # Between 1 and all key heads the peer repeats them in another order.
    yield _layer(heads=4, kv_heads=4, dim=10, queries=17, keys=17)
    yield _layer(heads=4, kv_heads=1, dim=10, queries=4, keys=17)
    yield _layer(heads=12, kv_heads=12, dim=80, queries=1, keys=1)
    yield _layer(heads=12, kv_heads=1, dim=80, queries=30, keys=70)


def _layer(heads: int, kv_heads: int, dim: int, queries: int, keys: int) -> Case:
    from x_transformers.x_transformers import Attention, RotaryEmbedding

    # Without flash its softmax is float32.
    layer = Attention(24, dim_head=dim, heads=heads, kv_heads=kv_heads, causal=True, flash=True)
    layer = layer.double()
    rotary = RotaryEmbedding(dim, use_xpos=True, scale_base=SCALE_BASE).double()
    _lift(rotary.inv_freq, rotary.scale, dim)
    encoding, past = XPos(dim, SCALE_BASE, layout="interleaved"), keys - queries

    def ours(x: Tensor) -> Tensor:
        q = split(layer.to_q(x[:, past:]), heads)
        k, v = (split(project(x), kv_heads) for project in (layer.to_k, layer.to_v))
        return layer.to_out(joined(attend(q, k, v, encoding, causal=True)))

    def theirs(x: Tensor) -> Tensor:
        memory = x[:, :past] if past else None
        return layer(x[:, past:], mem=memory, rotary_pos_emb=rotary(torch.arange(keys)))

    return Case(
        f"{heads} heads of {dim}, {kv_heads} key heads, {queries} queries, {keys} keys",
        ours,
        theirs,
        [torch.randn(2, keys, 24, dtype=torch.float64)],
    )


@peer("xpos", "rotary-embedding-torch")
def turned_by_rotary_embedding_torch() -> Iterator[Case]:
    """RotaryEmbedding(use_xpos=True).rotate_queries_and_keys, then attention"""
    yield _turned(heads=4, dim=10, length=17)
    yield _turned(heads=12, dim=80, length=1)
    yield _turned(heads=3, dim=80, length=70)


def _turned(heads: int, dim: int, length: int) -> Case:
    from rotary_embedding_torch import RotaryEmbedding

    rotary = RotaryEmbedding(
        dim, use_xpos=True, xpos_scale_base=SCALE_BASE, cache_if_possible=False
    ).double()
    _lift(rotary.freqs, rotary.scale, dim)
    encoding = XPos(dim, SCALE_BASE, layout="interleaved")

    def theirs(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k = rotary.rotate_queries_and_keys(q, k)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    return Case(
        f"{heads} heads of {dim}, length {length}",
        lambda q, k, v: attend(q, k, v, encoding, causal=True),
        theirs,
        [torch.randn(2, heads, length, dim, dtype=torch.float64) for _ in range(3)],
    )


def _lift(frequencies: nn.Parameter | Tensor, zeta: Tensor, dim: int) -> None:
    """Put float64 in place of what a peer computed in float32."""
    pair = torch.arange(0, dim, 2, dtype=torch.float64)
    with torch.no_grad():
        frequencies.copy_(10_000.0 ** (-pair / dim))
        zeta.copy_((pair + 0.4 * dim) / (1.4 * dim))
