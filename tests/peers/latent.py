"""Whole layers of MLA, of which Rotary turns the trailing dimensions of each head."""

from collections.abc import Iterator
from types import ModuleType
from typing import Any, cast

import torch
from torch import Tensor

from posenc.caches.latent import LatentCache
from posenc.encoding import Encoding
from posenc.latent import LatentAttention
from posenc.models.cache_names import given_cache
from posenc.models.read import read
from posenc.testing.agreement import Case, peer
from tests.peers._layers import causal_mask, set_alike
from tests.peers._wide import in_float64

WIDTH, HEADS = 24, 4
SIZES = {"kv_lora_rank": 20, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 10}
# Tokens cached by a first call, tokens of the calls that are compared, how many at once.
STEPS = [(0, 7, 7), (5, 3, 1), (5, 4, 2)]
YARN = {"rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 64}
ROPES: list[dict[str, Any]] = [
    {"rope_type": "default"},
    {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0},
    {**YARN, "mscale": 0.707, "mscale_all_dim": 1.2},
]


def config_of(kind: Any, rope: dict[str, Any], queries: int | None, **more: Any) -> Any:
    return kind(
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        q_lora_rank=queries,
        max_position_embeddings=4096,
        rope_parameters={"rope_theta": 10_000.0, **rope},
        attn_implementation="eager",
        **SIZES,
        **more,
    )


def ours_for(config: Any) -> LatentAttention:
    """The layer that `pe.read` tells of."""
    told = read(config.to_dict()).layers[0]
    assert told is not None
    assert told.rotary is not None
    return LatentAttention(
        WIDTH,
        HEADS,
        cast(Encoding, told.rotary.build()),
        latent_dim=20,
        content_dim=12,
        rope_dim=8,
        value_dim=10,
        query_latent_dim=config.q_lora_rank,
        scale=told.scale,
    ).double()


def case(config: Any, layer: Any, waves: Any, past: int, new: int, at_once: int) -> Case:
    ours, theirs = ours_for(config), layer.double()
    pairs: list[tuple[Any, Any]] = [
        (ours.down, theirs.kv_a_proj_with_mqa),
        (ours.norm, theirs.kv_a_layernorm),
        (ours.up, theirs.kv_b_proj),
        (ours.out, theirs.o_proj),
    ]
    if config.q_lora_rank is None:
        pairs.append((ours.query, theirs.q_proj))
    else:
        down, norm = ours.query_down.children()
        pairs += [(down, theirs.q_a_proj), (norm, theirs.q_a_layernorm)]
        pairs.append((ours.query, theirs.q_b_proj))
    weights = [set_alike(own.weight, its.weight) for own, its in pairs]
    with torch.no_grad():
        # Scores of a few, so that rounding is not multiplied by them.
        for pair in weights:
            for weight in pair:
                weight.mul_(0.3)
    parts = [past] * (past > 0) + [at_once] * (new // at_once)

    def by_ours(x: Tensor) -> Tensor:
        cache = LatentCache()
        return torch.cat([ours(part, cache=cache) for part in x.split(parts, dim=1)], dim=1)

    def by_theirs(x: Tensor) -> Tensor:
        from transformers import DynamicCache

        cache, mask, outs, start = DynamicCache(), causal_mask(past + new, True), [], 0
        with in_float64():
            for part in x.split(parts, dim=1):
                end = start + part.shape[1]
                at = torch.arange(start, end).expand(len(x), -1)
                told = {"position_embeddings": waves(x, at), **given_cache(theirs, cache)}
                seen = mask[..., start:end, :end]
                outs.append(theirs(part, attention_mask=seen, **told)[0])
                start = end
        return torch.cat(outs, dim=1)

    x = torch.randn(2, past + new, WIDTH, dtype=torch.float64)
    name = f"{config.rope_parameters}, queries by {config.q_lora_rank}, {at_once} at once"
    return Case(f"{name} after {past}", by_ours, by_theirs, [x], weights)


def cases(code: ModuleType, kind: str, config: Any) -> Iterator[Case]:
    for steps in STEPS:
        with in_float64():
            waves = getattr(code, f"{kind}RotaryEmbedding")(config)
        layer = getattr(code, f"{kind}Attention")(config, layer_idx=0)
        yield case(config, layer, waves, *steps)


@peer("rotary", "transformers")
def layer_of_deepseek_v2() -> Iterator[Case]:
    """DeepseekV2Attention, LatentAttention in both forms, its float32 steps in float64"""
    from transformers.models.deepseek_v2 import modeling_deepseek_v2 as code

    for rope, queries in zip(ROPES, (None, 16, None), strict=True):
        yield from cases(code, "DeepseekV2", config_of(code.DeepseekV2Config, rope, queries))


@peer("rotary", "transformers")
def layer_of_deepseek_v3() -> Iterator[Case]:
    """DeepseekV3Attention, LatentAttention in both forms, its float32 steps in float64"""
    from transformers.models.deepseek_v3 import modeling_deepseek_v3 as code

    for rope, interleaved in zip(ROPES, (True, False, True), strict=True):
        config = config_of(code.DeepseekV3Config, rope, 16, rope_interleave=interleaved)
        yield from cases(code, "DeepseekV3", config)
