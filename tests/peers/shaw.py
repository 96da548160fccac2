from collections.abc import Iterator

import torch
from torch import Tensor

from posenc.attention import attend
from posenc.attention_parts import scores
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


@peer("shaw", "torch")
def scores_of_music_transformer() -> Iterator[Case]:
    """Music Transformer's skewing, in own words: causal scores by padding and reshaping"""
    for heads, head_dim, length, clip in (
        (4, 8, 17, 16),
        (4, 8, 17, 40),
        (6, 16, 9, 3),
        (2, 8, 1, 1),
    ):
        yield _skewed(heads, head_dim, length, clip)


def _skewed(heads: int, head_dim: int, length: int, clip: int) -> Case:
    encoding = Shaw(head_dim, clip, values=False, future=0).double()
    assert encoding.keys_weight is not None
    table = encoding.keys_weight.detach().clone().requires_grad_()
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    # A row of the table for each distance from 1 - length to 0; far ones share the first.
    rows = (torch.arange(1 - length, 1) + clip).clamp(min=0)

    def ours(q: Tensor, k: Tensor) -> Tensor:
        return scores(q, k, encoding, causal=True).masked_fill(~causal, 0.0)

    def theirs(q: Tensor, k: Tensor) -> Tensor:
        # Each row holds distances 1 - length to 0; row i is to hold them from -i on.
        products = torch.nn.functional.pad(q @ table[rows].T, (1, 0))
        skewed = products.reshape(*q.shape[:2], length + 1, length)[:, :, 1:]
        return ((q @ k.mT + skewed) * head_dim**-0.5).masked_fill(~causal, 0.0)

    return Case(
        f"{heads} heads of {head_dim}, length {length}, clip {clip}",
        ours,
        theirs,
        [torch.randn(2, heads, length, head_dim, dtype=torch.float64) for _ in range(2)],
        [(encoding.keys_weight, table)],
    )
