from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from posenc.attention import attend
from posenc.encodings import T5Bias
from posenc.equation import weights_of
from posenc.lowering import lower
from posenc.models.cache_names import given_cache
from posenc.positions import Positions
from posenc.terms import DistanceTable
from posenc.testing.agreement import Case, peer
from tests.peers._layers import causal_mask, joined, set_alike, split


@peer("t5", "transformers")
def layer_of_t5() -> Iterator[Case]:
    """T5Attention, the whole layer, also with a cache"""
    for decoder in (True, False):
        yield _layer(decoder, heads=4, head_dim=8, past=0, length=17)
        yield _layer(decoder, heads=12, head_dim=80, past=0, length=1)
        # Longer than the 128 tokens at which buckets saturate.
        yield _layer(decoder, heads=12, head_dim=80, past=0, length=150)
        yield _layer(decoder, heads=12, head_dim=80, past=140, length=3)


@peer("t5", "x-transformers")
def bias_of_x_transformers() -> Iterator[Case]:
    """RelativePositionBias, made for scores divided by sqrt(d), and so multiplied by it"""
    for causal in (True, False):
        yield _bias(causal, heads=12, head_dim=80, q_len=150, k_len=150)
        yield _bias(causal, heads=12, head_dim=80, q_len=1, k_len=1)
        yield _bias(causal, heads=5, head_dim=9, q_len=4, k_len=17)


def _layer(decoder: bool, heads: int, head_dim: int, past: int, length: int) -> Case:
    from transformers import DynamicCache
    from transformers.models.t5.modeling_t5 import T5Attention, T5Config

    config = T5Config(
        d_model=24,
        d_kv=head_dim,
        num_heads=heads,
        dropout_rate=0.0,
        is_decoder=decoder,
        attn_implementation="eager",
    )
    layer = T5Attention(config, has_relative_attention_bias=True, layer_idx=0).double()
    encoding = T5Bias(heads, bidirectional=not decoder).double()

    def ours(x: Tensor) -> Tensor:
        q, k, v = (split(linear(x), heads) for linear in (layer.q, layer.k, layer.v))
        # T5 does not divide by the root of the head dimension.
        out = attend(q[:, :, past:], k, v, encoding, causal=decoder, scale=1.0)
        return layer.o(joined(out))

    def theirs(x: Tensor) -> Tensor:
        held, mask = given_cache(layer, DynamicCache()), causal_mask(past + length, decoder)
        if past:
            layer(x[:, :past], mask[..., :past, :past], **held)
        return layer(x[:, past:], mask[..., past:, :], **held)[0]

    return Case(
        f"decoder={decoder}, {heads} heads of {head_dim}, {length} tokens after {past}",
        ours,
        theirs,
        [torch.randn(2, past + length, 24, dtype=torch.float64)],
        [set_alike(encoding.weight, layer.relative_attention_bias.weight)],
    )


def _bias(causal: bool, heads: int, head_dim: int, q_len: int, k_len: int) -> Case:
    from x_transformers.x_transformers import RelativePositionBias

    made = RelativePositionBias(head_dim**0.5, causal=causal, heads=heads).double()
    encoding = T5Bias(heads, bidirectional=not causal).double()
    weights = set_alike(encoding.weight, made.relative_attention_bias.weight)
    hidden = (torch.arange(k_len) > torch.arange(k_len - q_len, k_len)[:, None]) & causal

    def ours(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        (table,) = lower(encoding, Positions.build(q_len, k_len, causal=causal)).terms
        assert isinstance(table, DistanceTable)
        grown = replace(table, values=table.values * head_dim**0.5)
        return attend(q, k, v, grown, causal=causal)

    def theirs(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        s = q @ k.mT * head_dim**-0.5 + made(q_len, k_len)
        return weights_of(s.masked_fill(hidden, -torch.inf)) @ v

    return Case(
        f"causal={causal}, {heads} heads of {head_dim}, {q_len} queries, {k_len} keys",
        ours,
        theirs,
        [torch.randn(2, heads, n, head_dim, dtype=torch.float64) for n in (q_len, k_len, k_len)],
        [weights],
    )
