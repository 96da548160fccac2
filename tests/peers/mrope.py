from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from posenc.attention import attend
from posenc.encodings import MRoPE
from posenc.positions import Positions
from posenc.testing.agreement import Case, peer
from tests.peers._layers import causal_mask, joined, split

BASE = 500.0


@peer("mrope", "transformers")
def layer_of_qwen2_vl() -> Iterator[Case]:
    """Qwen2VLAttention with the sections of Qwen2VLRotaryEmbedding, the whole layer"""
    from transformers.models.qwen2_vl import modeling_qwen2_vl as qwen

    for heads, kv_heads, sections, length in (
        (4, 2, (1, 2, 2), 17),
        (12, 12, (10, 15, 15), 1),
        (12, 4, (10, 15, 15), 30),
    ):
        config = qwen.Qwen2VLTextConfig(**_settings(heads, kv_heads, sections))
        layer = qwen.Qwen2VLAttention(config, layer_idx=0)
        encoding = MRoPE(2 * sum(sections), sections, base=BASE)
        yield _case(layer, qwen.Qwen2VLRotaryEmbedding(config), encoding, kv_heads, length)


@peer("mrope", "transformers")
def layer_of_qwen3_vl() -> Iterator[Case]:
    """Qwen3VLTextAttention with the sections of Qwen3VLTextRotaryEmbedding, the whole layer"""
    from transformers.models.qwen3_vl import modeling_qwen3_vl as qwen

    for heads, kv_heads, sections, length in (
        (4, 2, (3, 1, 1), 17),
        (12, 12, (16, 12, 12), 1),
        (12, 4, (16, 13, 11), 30),
    ):
        settings = _settings(heads, kv_heads, sections)
        config = qwen.Qwen3VLTextConfig(head_dim=2 * sum(sections), **settings)
        layer = qwen.Qwen3VLTextAttention(config, layer_idx=0)
        # Both norms come before the rotation, and round to float32.
        layer.q_norm = layer.k_norm = nn.Identity()
        encoding = MRoPE(2 * sum(sections), sections, interleaved=True, base=BASE)
        yield _case(layer, qwen.Qwen3VLTextRotaryEmbedding(config), encoding, kv_heads, length)


def _settings(heads: int, kv_heads: int, sections: tuple[int, ...]) -> dict[str, Any]:
    return {
        "hidden_size": heads * 2 * sum(sections),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": BASE,
            "mrope_section": list(sections),
        },
        "attn_implementation": "sdpa",
    }


def _case(layer: Any, rotary: Any, encoding: MRoPE, kv_heads: int, length: int) -> Case:
    layer, dim = layer.double(), encoding.dim
    heads = layer.q_proj.out_features // dim
    # As in an image, several tokens share a time, a row or a column.
    ids = torch.randint(40, (2, length, 3))
    positions = Positions.build(ids=ids, causal=True)
    # What the peer's forward makes in float32, put together by the peer.
    frequencies = BASE ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    angles = ids.movedim(-1, 0)[..., None] * frequencies
    waves = tuple(rotary.recomposition_frequencies(wave) for wave in (angles.cos(), angles.sin()))

    def ours(x: Tensor) -> Tensor:
        q, k, v = (
            split(project(x), count)
            for project, count in (
                (layer.q_proj, heads),
                (layer.k_proj, kv_heads),
                (layer.v_proj, kv_heads),
            )
        )
        return layer.o_proj(joined(attend(q, k, v, encoding, positions=positions)))

    def theirs(x: Tensor) -> Tensor:
        mask = causal_mask(length, True)
        return layer(x, position_embeddings=waves, attention_mask=mask)[0]

    return Case(
        f"sections {encoding.sections}, {heads} heads, {kv_heads} key heads, length {length}",
        ours,
        theirs,
        [torch.randn(2, length, heads * dim, dtype=torch.float64)],
    )
