from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from posenc.attention import attend
from posenc.encodings import ALiBi
from posenc.equation import weights_of
from posenc.positions import Positions
from posenc.testing.agreement import Case, peer
from tests.peers._layers import causal_mask, joined
from tests.peers._wide import in_float64

# Heads, their dimension, tokens cached by a first call, tokens of the call that is compared.
SIZES = [(12, 80, 0, 150), (12, 80, 0, 1), (12, 80, 20, 1), (5, 8, 11, 6), (8, 16, 0, 17)]


@peer("alibi", "transformers")
def layer_of_bloom() -> Iterator[Case]:
    """BloomAttention, the whole layer, its float32 steps in float64"""
    from transformers.models.bloom import modeling_bloom as bloom

    def case(heads: int, head_dim: int, past: int, length: int) -> Case:
        config = bloom.BloomConfig(
            hidden_size=heads * head_dim,
            n_head=heads,
            hidden_dropout=0.0,
            attention_dropout=0.0,
        )
        layer = bloom.BloomAttention(config, layer_idx=0).double()

        def theirs(x: Tensor, cache: object, mask: Tensor) -> Tensor:
            seen = torch.ones(x.shape[0], mask.shape[-1]).long()
            alibi = bloom.build_alibi_tensor(seen, heads, x.dtype)
            return layer(x, torch.zeros_like(x), alibi, mask, cache)[0]

        def ours(x: Tensor) -> Tensor:
            # Each head has its own q, k and v together.
            q, k, v = layer.query_key_value(x).unflatten(-1, (heads, 3, -1)).permute(3, 0, 2, 1, 4)
            return layer.dense(joined(attend(q[:, :, past:], k, v, ALiBi(heads), causal=True)))

        return _layer(heads, head_dim, past, length, ours, theirs)

    yield from (case(*sizes) for sizes in SIZES)


@peer("alibi", "transformers")
def layer_of_mpt() -> Iterator[Case]:
    """MptAttention, the whole layer, its float32 steps in float64"""
    from transformers.models.mpt import modeling_mpt as mpt

    def case(heads: int, head_dim: int, past: int, length: int) -> Case:
        config = mpt.MptConfig(d_model=heads * head_dim, n_heads=heads)
        layer = mpt.MptAttention(config, layer_idx=0).double()

        def theirs(x: Tensor, cache: object, mask: Tensor) -> Tensor:
            return layer(x, mpt.build_mpt_alibi_tensor(heads, 256), cache, mask < 0)[0]

        def ours(x: Tensor) -> Tensor:
            q, k, v = layer.Wqkv(x).unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
            return layer.out_proj(joined(attend(q[:, :, past:], k, v, ALiBi(heads), causal=True)))

        return _layer(heads, head_dim, past, length, ours, theirs)

    yield from (case(*sizes) for sizes in SIZES)


@peer("alibi", "transformers")
def layer_of_falcon() -> Iterator[Case]:
    """FalconAttention, the whole layer, its bfloat16 bias in float64"""
    from transformers.models.falcon import modeling_falcon as falcon

    def case(heads: int, head_dim: int, past: int, length: int) -> Case:
        config = falcon.FalconConfig(
            hidden_size=heads * head_dim,
            num_attention_heads=heads,
            alibi=True,
            multi_query=False,
            bias=True,
            attn_implementation="eager",
        )
        layer = falcon.FalconAttention(config, layer_idx=0).double()
        encoding = ALiBi(heads, inside=True)

        def theirs(x: Tensor, cache: object, mask: Tensor) -> Tensor:
            seen = torch.ones(x.shape[0], mask.shape[-1]).long()
            alibi = falcon.build_alibi_tensor(seen, heads, x.dtype)
            return layer(x, alibi, mask, layer_past=cache)[0]

        def ours(x: Tensor) -> Tensor:
            q, k, v = layer.query_key_value(x).unflatten(-1, (heads, 3, -1)).permute(3, 0, 2, 1, 4)
            return layer.dense(joined(attend(q[:, :, past:], k, v, encoding, causal=True)))

        return _layer(heads, head_dim, past, length, ours, theirs)

    yield from (case(*sizes) for sizes in SIZES)


@peer("alibi", "x-transformers")
def bias_of_x_transformers() -> Iterator[Case]:
    """AlibiPositionalBias, symmetric, also at real-valued positions"""
    from x_transformers.x_transformers import AlibiPositionalBias

    for heads, q_len, k_len in ((12, 150, 150), (5, 1, 1), (8, 4, 9)):
        with in_float64():
            bias = AlibiPositionalBias(heads)(q_len, k_len)
        yield _biased(heads, Positions.build(q_len, k_len), bias)
    at = torch.rand(2, 9, dtype=torch.float64) * 40
    with in_float64():
        bias = AlibiPositionalBias(6).forward_custom_pos(at)
    yield _biased(6, Positions.build(ids=at), bias)


@peer("alibi", "attn-gym")
def score_mod_of_attention_gym() -> Iterator[Case]:
    """generate_alibi_bias, causal, where the number of heads is a power of two"""
    from attn_gym.mods import generate_alibi_bias

    for heads, length in ((8, 150), (4, 17), (1, 5)):
        at, none = torch.arange(length), torch.zeros((), dtype=torch.float64)
        with in_float64():
            head = torch.arange(heads).view(-1, 1, 1)
            bias = generate_alibi_bias(heads)(none, None, head, at[:, None], at)
        bias = bias.masked_fill(at[:, None] < at, -torch.inf)
        yield _biased(heads, Positions.build(length, causal=True), bias)


def _layer(
    heads: int,
    head_dim: int,
    past: int,
    length: int,
    ours: Callable[[Tensor], Tensor],
    theirs: Callable[[Tensor, object, Tensor], Tensor],
) -> Case:
    """`theirs` takes tokens, a cache and an additive mask; it caches the first `past` tokens."""

    def in_turn(x: Tensor) -> Tensor:
        from transformers import DynamicCache

        cache, mask = DynamicCache(), causal_mask(past + length, True)
        with in_float64():
            if past:
                theirs(x[:, :past], cache, mask[..., :past, :past])
            return theirs(x[:, past:], cache, mask[..., past:, :])

    x = torch.randn(2, past + length, heads * head_dim, dtype=torch.float64)
    name = f"{heads} heads of {head_dim}, {length} tokens after {past}"
    return Case(name, ours, in_turn, [x])


def _biased(heads: int, positions: Positions, bias: Tensor) -> Case:
    """Attention with a bias that the peer made, beside its scores q . k / sqrt(d)."""
    lengths, head_dim = (positions.q_len, positions.k_len, positions.k_len), 10
    return Case(
        f"{heads} heads, {positions.q_len} queries, {positions.k_len} keys",
        lambda q, k, v: attend(q, k, v, ALiBi(heads), positions=positions),
        lambda q, k, v: weights_of(q @ k.mT / head_dim**0.5 + bias) @ v,
        [torch.randn(2, heads, length, head_dim, dtype=torch.float64) for length in lengths],
    )
