from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from posenc.attention import attend
from posenc.encodings import TransformerXL
from posenc.testing.agreement import Case, peer
from tests.peers._layers import joined, set_alike, split


@peer("transformer_xl", "transformers")
def layer_of_xlnet() -> Iterator[Case]:
    """XLNetRelativeAttention, the whole layer, with memory, and XLNet's sinusoids in float64"""
    for causal in (True, False):
        yield _layer(_exact, causal, heads=4, head_dim=8, length=9)
        yield _layer(_exact, causal, heads=12, head_dim=80, length=1)
        yield _layer(_exact, causal, heads=12, head_dim=80, length=13, memory=8)
        yield _layer(_exact, causal, heads=4, head_dim=8, length=7, memory=4, clamp=3)


@peer(
    "transformer_xl",
    "transformers",
    forward=1e-6,
    gradient=1e-6,
    cap="XLNetModel.relative_positional_encoding computes frequencies and angles in float32",
)
def layer_of_xlnet_as_released() -> Iterator[Case]:
    """XLNetRelativeAttention, the whole layer, and the table that XLNetModel gives it"""
    for causal in (True, False):
        yield _layer(_released, causal, heads=12, head_dim=80, length=13, memory=8)
        yield _layer(_released, causal, heads=4, head_dim=8, length=7, memory=4, clamp=3)


@peer(
    "transformer_xl",
    "transformers",
    forward=1e-6,
    gradient=1e-6,
    cap="Wav2Vec2ConformerRelPositionalEmbedding makes its sinusoids in float32",
)
def layer_of_conformer() -> Iterator[Case]:
    """Wav2Vec2ConformerSelfAttention with relative positions, both directions, the whole layer"""
    from transformers.models.wav2vec2_conformer import modeling_wav2vec2_conformer as conformer

    for heads, head_dim, length in ((4, 8, 9), (3, 16, 1)):
        dim = heads * head_dim
        config = conformer.Wav2Vec2ConformerConfig(
            hidden_size=dim,
            num_attention_heads=heads,
            attention_dropout=0.0,
            position_embeddings_type="relative",
            max_source_positions=20,
            attn_implementation="eager",
        )
        layer = conformer.Wav2Vec2ConformerSelfAttention(config).double().eval()
        table = conformer.Wav2Vec2ConformerRelPositionalEmbedding(config)
        encoding = TransformerXL(dim, heads).double()
        weights = [
            set_alike(encoding.content_bias, layer.pos_bias_u),
            set_alike(encoding.position_bias, layer.pos_bias_v),
        ]
        with torch.no_grad():
            # Their waves take turns, sine and cosine; those of the encoding stand in halves.
            rows = layer.linear_pos.weight.T.unflatten(1, (heads, -1))
            encoding.projection.copy_(torch.cat((rows[0::2], rows[1::2])))

        def ours(
            x: Tensor, layer: Any = layer, e: TransformerXL = encoding, heads: int = heads
        ) -> Tensor:
            linears = (layer.linear_q, layer.linear_k, layer.linear_v)
            q, k, v = (split(linear(x), heads) for linear in linears)
            return layer.linear_out(joined(attend(q, k, v, e, causal=False)))

        def theirs(x: Tensor, layer: Any = layer, table: Any = table) -> Tensor:
            return layer(x, relative_position_embeddings=table(x))[0]

        x = torch.randn(2, length, dim, dtype=torch.float64)
        yield Case(f"{heads} heads of {head_dim}, length {length}", ours, theirs, [x], weights)


def _layer(
    table: Any,
    causal: bool,
    heads: int,
    head_dim: int,
    length: int,
    memory: int = 0,
    clamp: int | None = None,
) -> Case:
    from transformers.models.xlnet.modeling_xlnet import XLNetConfig, XLNetRelativeAttention

    dim = heads * head_dim
    config = XLNetConfig(d_model=dim, n_head=heads, dropout=0.0)
    layer = XLNetRelativeAttention(config).double().eval()
    encoding = TransformerXL(dim, heads, clamp=clamp).double()
    with torch.no_grad():
        for weight in (layer.q, layer.k, layer.v, layer.o):
            weight.normal_(std=dim**-0.5)
    weights = [
        set_alike(encoding.projection, layer.r),
        set_alike(encoding.content_bias, layer.r_w_bias),
        set_alike(encoding.position_bias, layer.r_r_bias),
    ]
    with torch.no_grad():
        layer.r.mul_(dim**-0.5)
        encoding.projection.mul_(dim**-0.5)
    whole = memory + length
    hidden = torch.ones(whole, whole, dtype=torch.float64).triu(1)[memory:, :, None, None]
    r = table(dim, length, whole, clamp, causal)

    def theirs(x: Tensor) -> Tensor:
        # XLNet keeps tokens before the batch.
        old, new = x[:, :memory].transpose(0, 1), x[:, memory:].transpose(0, 1)
        mask = hidden.expand(-1, -1, len(x), -1) if causal else None
        return layer(new, None, mask, None, r, None, mems=old)[0]

    def ours(x: Tensor) -> Tensor:
        q, k, v = (
            torch.einsum("btc,chd->bhtd", given, weight)
            for given, weight in ((x[:, memory:], layer.q), (x, layer.k), (x, layer.v))
        )
        out = attend(q, k, v, encoding, causal=causal)
        return layer.post_attention(x[:, memory:].transpose(0, 1), out.permute(2, 0, 1, 3))

    return Case(
        f"causal={causal}, {heads} heads of {head_dim}, {length} queries, {whole} keys, {clamp=}",
        ours,
        theirs,
        [torch.randn(2, whole, dim, dtype=torch.float64)],
        weights,
    )


def _exact(dim: int, q_len: int, k_len: int, clamp: int | None, causal: bool) -> Tensor:
    """Rows from distance k_len to -q_len, as relative_positional_encoding lays them out."""
    from transformers.models.xlnet.modeling_xlnet import XLNetModel

    end = -1 if causal else -q_len
    back = torch.arange(k_len, end, -1, dtype=torch.float64)
    if clamp is not None:
        back = back.clamp(-clamp, clamp)
    frequencies = 10_000 ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    return XLNetModel.positional_embedding(back, frequencies, bsz=2)


def _released(dim: int, q_len: int, k_len: int, clamp: int | None, causal: bool) -> Tensor:
    from transformers.models.xlnet.modeling_xlnet import XLNetModel

    model = SimpleNamespace(
        d_model=dim,
        attn_type="uni" if causal else "bi",
        bi_data=False,
        clamp_len=-1 if clamp is None else clamp,
        positional_embedding=XLNetModel.positional_embedding,
    )
    return XLNetModel.relative_positional_encoding(model, q_len, k_len, bsz=2).double()
