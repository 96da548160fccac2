from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from posenc.attention import attend
from posenc.encodings import NoPE
from posenc.testing.agreement import Case, peer
from tests.peers._layers import causal_mask, joined, split


@peer("none", "torch")
def attention_of_torch() -> Iterator[Case]:
    """F.scaled_dot_product_attention with grouped heads, aligned at the last key"""
    # By name, for `auto` would compare this function with itself.
    for backend in ("reference", "sdpa"):
        for causal in (True, False):
            yield _attention(backend, causal, heads=12, kv_heads=4, head_dim=80, q_len=9, k_len=9)
            yield _attention(backend, causal, heads=6, kv_heads=1, head_dim=7, q_len=3, k_len=11)
            yield _attention(backend, causal, heads=1, kv_heads=1, head_dim=1, q_len=1, k_len=1)


@peer("none", "transformers")
def layer_of_smollm3() -> Iterator[Case]:
    """SmolLM3Attention of a layer without rotation, the whole layer with grouped heads"""
    yield _layer(heads=12, kv_heads=4, head_dim=80, length=13)
    yield _layer(heads=3, kv_heads=1, head_dim=6, length=1)


def _attention(
    backend: str, causal: bool, heads: int, kv_heads: int, head_dim: int, q_len: int, k_len: int
) -> Case:
    from torch.nn.attention.bias import causal_lower_right

    def theirs(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        mask = causal_lower_right(q_len, k_len) if causal else None
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)

    shapes = ((heads, q_len), (kv_heads, k_len), (kv_heads, k_len))
    return Case(
        f"{backend}, causal={causal}, {heads} and {kv_heads} heads of {head_dim}, "
        f"{q_len} queries and {k_len} keys",
        lambda q, k, v: attend(q, k, v, NoPE(), causal=causal, backend=backend),
        theirs,
        [torch.randn(2, *shape, head_dim, dtype=torch.float64) for shape in shapes],
    )


def _layer(heads: int, kv_heads: int, head_dim: int, length: int) -> Case:
    from transformers.models.smollm3.configuration_smollm3 import SmolLM3Config
    from transformers.models.smollm3.modeling_smollm3 import SmolLM3Attention

    config = SmolLM3Config(
        hidden_size=24,
        head_dim=head_dim,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        num_hidden_layers=1,
        # 1 marks a layer with rotation, in spite of the name.
        no_rope_layers=[0],
        # Its eager softmax rounds to float32.
        attn_implementation="sdpa",
    )
    layer = SmolLM3Attention(config, layer_idx=0).double()

    def ours(x: Tensor) -> Tensor:
        q = split(layer.q_proj(x), heads)
        k, v = (split(linear(x), kv_heads) for linear in (layer.k_proj, layer.v_proj))
        # By name, for `auto` would call the function that the layer calls.
        out = attend(q, k, v, NoPE(), causal=True, backend="reference")
        return layer.o_proj(joined(out))

    return Case(
        f"{heads} and {kv_heads} heads of {head_dim}, length {length}",
        ours,
        lambda x: layer(x, None, causal_mask(length, True))[0],
        [torch.randn(2, length, 24, dtype=torch.float64)],
    )
