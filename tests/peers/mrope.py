from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from posenc.attention import attend
from posenc.attention_parts import scores
from posenc.encodings import MRoPE
from posenc.encodings.scaling import YaRN
from posenc.positions import Positions
from posenc.testing.agreement import Case, peer
from tests.peers._layers import causal_mask, joined, split
from tests.peers._wide import in_float64

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


@peer("mrope", "transformers")
def rotation_of_qwen3_5() -> Iterator[Case]:
    """apply_rotary_pos_emb of Qwen3.5, which turns a quarter of the head, in turns, with YaRN"""
    from transformers.models.qwen3_5 import modeling_qwen3_5 as qwen

    for dim, sections, scaling in (
        (256, (11, 11, 10), None),
        (40, (3, 1, 1), None),
        (40, (2, 2, 1), YaRN(4.0, 64)),
    ):
        turned = 2 * sum(sections)
        encoding = MRoPE(
            dim, sections, interleaved=True, base=BASE, rotary_dim=turned, scaling=scaling
        )
        settings = {"rope_type": "default", "rope_theta": BASE, "mrope_section": list(sections)}
        if scaling is not None:
            settings |= {"rope_type": "yarn", "factor": scaling.factor}
            settings |= {"original_max_position_embeddings": scaling.original_length}
        config = qwen.Qwen3_5TextConfig(
            head_dim=dim,
            max_position_embeddings=256,
            rope_parameters=settings | {"partial_rotary_factor": turned / dim},
        )
        kind, turn = qwen.Qwen3_5TextRotaryEmbedding, qwen.apply_rotary_pos_emb
        yield _rotation(lambda config=config, kind=kind: kind(config), turn, encoding)


@peer("mrope", "transformers")
def rotation_of_ernie_4_5_vl() -> Iterator[Case]:
    """apply_rotary_pos_emb of ERNIE 4.5 VL: rows and columns in turns, time in the last pairs"""
    from transformers.models.ernie4_5_vl_moe import modeling_ernie4_5_vl_moe as ernie

    for time, space in ((20, 22), (3, 1)):
        dim = 2 * (time + 2 * space)
        config = ernie.Ernie4_5_VLMoeTextConfig(
            hidden_size=2 * dim,
            num_attention_heads=2,
            rope_parameters={
                "rope_type": "default", "rope_theta": BASE, "mrope_section": [space, space, time],
            },
        )  # fmt: skip
        encoding = MRoPE(
            dim, (time, space, space), interleaved="space", base=BASE, layout="interleaved"
        )
        kind, turn = ernie.Ernie4_5_VLMoeTextRotaryEmbedding, ernie.apply_rotary_pos_emb
        yield _rotation(lambda config=config, kind=kind: kind(config), turn, encoding)


def _rotation(make: Callable[[], Any], turn: Callable[..., Any], encoding: MRoPE) -> Case:
    """Scores of tokens of images, several of which share a time, a row or a column."""
    ids = torch.randint(40, (2, 17, 3))
    positions = Positions.build(ids=ids)
    with in_float64():
        cos, sin = make()(torch.zeros(1), ids.movedim(-1, 0))

    def theirs(q: Tensor, k: Tensor) -> Tensor:
        with in_float64():
            q, k = turn(q, k, cos, sin)
        return q @ k.mT / encoding.dim**0.5

    q, k = torch.randn(2, 2, 3, 17, encoding.dim, dtype=torch.float64).unbind()
    return Case(
        f"scores, sections {encoding.sections} of {encoding.dim} dimensions, {encoding.scaling}",
        lambda q, k: scores(q, k, encoding, positions=positions),
        theirs,
        (q, k),
    )


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
