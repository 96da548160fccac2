from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from posenc.attention import attend
from posenc.encodings import LearnedRotary
from posenc.testing.agreement import Case, peer


@peer("learned_rotary", "rotary-embedding-torch")
def frequencies_of_rotary_embedding_torch() -> Iterator[Case]:
    """RotaryEmbedding(learned_freq=True), whose parameter is the frequency, not its logarithm"""
    for causal in (True, False):
        yield _case(heads=4, dim=10, turned=10, queries=17, keys=17, causal=causal)
        yield _case(heads=4, dim=16, turned=6, queries=4, keys=17, causal=causal)
        yield _case(heads=12, dim=80, turned=80, queries=1, keys=1, causal=causal)
        yield _case(heads=3, dim=80, turned=40, queries=70, keys=70, causal=causal)


class _Ours(nn.Module):
    """Attention as a module, so that functional_call can put frequencies in."""

    def __init__(self, encoding: LearnedRotary, causal: bool) -> None:
        super().__init__()
        self.encoding, self.causal = encoding, causal

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attend(q, k, v, self.encoding, causal=self.causal)


class _Theirs(nn.Module):
    """The same around the peer, which turns and leaves attention to its caller."""

    def __init__(self, rotary: Any, causal: bool) -> None:
        super().__init__()
        self.rotary, self.causal = rotary, causal

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k = self.rotary.rotate_queries_with_cached_keys(q, k)
        past = torch.ones(q.shape[2], k.shape[2]).tril(k.shape[2] - q.shape[2]) > 0
        return F.scaled_dot_product_attention(q, k, v, attn_mask=past if self.causal else None)


def _case(heads: int, dim: int, turned: int, queries: int, keys: int, causal: bool) -> Case:
    from rotary_embedding_torch import RotaryEmbedding

    encoding = LearnedRotary(dim, layout="interleaved", rotary_dim=turned).double()
    ours = _Ours(encoding, causal)
    theirs = _Theirs(RotaryEmbedding(turned, learned_freq=True).double(), causal)
    frequency = torch.rand(turned // 2, dtype=torch.float64) + 0.01
    lengths = (queries, keys, keys)
    return Case(
        f"{heads} heads of {dim}, {turned} dimensions turned, {queries} queries, {keys} keys, "
        f"causal={causal}",
        lambda f, *qkv: functional_call(ours, {"encoding.log_frequency": f.log()}, qkv),
        lambda f, *qkv: functional_call(theirs, {"rotary.freqs": f}, qkv),
        [frequency, *(torch.randn(2, heads, t, dim, dtype=torch.float64) for t in lengths)],
    )
