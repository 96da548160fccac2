from collections.abc import Iterator

import torch
from torch import Tensor

from posenc.attention import attend
from posenc.encodings import PoPE
from posenc.testing.agreement import Case, peer
from tests.peers._layers import joined, set_alike, split
from tests.peers._wide import in_float64


@peer("pope", "x-transformers")
def layer_of_x_transformers() -> Iterator[Case]:
    """Attention with PolarEmbedding, the whole causal layer, its float32 steps in float64"""
    yield _layer(heads=4, dim=10, queries=17, keys=17)
    yield _layer(heads=3, dim=7, queries=4, keys=17)
    yield _layer(heads=12, dim=80, queries=1, keys=1)


def _layer(heads: int, dim: int, queries: int, keys: int) -> Case:
    from x_transformers.x_transformers import Attention, PolarEmbedding

    # Without flash its softmax is float32.
    layer = Attention(24, dim_head=dim, heads=heads, causal=True, flash=True).double()
    with in_float64():
        polar = PolarEmbedding(dim, heads).double()
    encoding, past = PoPE(dim, heads).double(), keys - queries

    def ours(x: Tensor) -> Tensor:
        q = split(layer.to_q(x[:, past:]), heads)
        k, v = (split(project(x), heads) for project in (layer.to_k, layer.to_v))
        return layer.to_out(joined(attend(q, k, v, encoding, causal=True)))

    def theirs(x: Tensor) -> Tensor:
        memory = x[:, :past] if past else None
        with in_float64():
            waves = polar(torch.arange(keys))
            return layer(x[:, past:], mem=memory, polar_pos_emb=waves)

    return Case(
        f"{heads} heads of {dim}, {queries} queries, {keys} keys",
        ours,
        theirs,
        [torch.randn(2, keys, 24, dtype=torch.float64)],
        [set_alike(encoding.delta, polar.learned_bias)],
    )
