from collections.abc import Iterator

import torch
from torch import Tensor

from posenc.attention import attend
from posenc.encodings import Shaw
from posenc.testing.agreement import Case, peer
from tests.peers._layers import causal_mask, joined, set_alike, split


@peer("shaw", "transformers")
def layer_of_wav2vec2_bert() -> Iterator[Case]:
    """Wav2Vec2BertSelfAttention with relative keys, the whole layer"""
    for causal in (True, False):
        yield _layer(causal, heads=4, head_dim=8, length=17, clip=3, future=3)
        yield _layer(causal, heads=12, head_dim=80, length=1, clip=5, future=2)
        yield _layer(causal, heads=12, head_dim=80, length=23, clip=5, future=2)


def _layer(causal: bool, heads: int, head_dim: int, length: int, clip: int, future: int) -> Case:
    from transformers.models.wav2vec2_bert.modeling_wav2vec2_bert import (
        Wav2Vec2BertConfig,
        Wav2Vec2BertSelfAttention,
    )

    config = Wav2Vec2BertConfig(
        hidden_size=heads * head_dim,
        num_attention_heads=heads,
        attention_dropout=0.0,
        position_embeddings_type="relative_key",
        left_max_position_embeddings=clip,
        right_max_position_embeddings=future,
        attn_implementation="eager",
    )
    layer = Wav2Vec2BertSelfAttention(config).double().eval()
    encoding = Shaw(head_dim, clip, values=False, future=future).double()
    assert encoding.keys_weight is not None

    def ours(x: Tensor) -> Tensor:
        linears = (layer.linear_q, layer.linear_k, layer.linear_v)
        q, k, v = (split(linear(x), heads) for linear in linears)
        return layer.linear_out(joined(attend(q, k, v, encoding, causal=causal)))

    return Case(
        f"causal={causal}, {heads} heads of {head_dim}, length {length}",
        ours,
        lambda x: layer(x, causal_mask(length, causal))[0],
        [torch.randn(2, length, heads * head_dim, dtype=torch.float64)],
        [set_alike(encoding.keys_weight, layer.distance_embedding.weight)],
    )
