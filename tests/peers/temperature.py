from collections.abc import Iterator

import torch
from torch import Tensor

from posenc.attention import attend
from posenc.attention_parts import scores
from posenc.encodings import Rotary, Temperature
from posenc.positions import Positions
from posenc.testing.agreement import Case, peer
from tests.peers._layers import causal_mask, joined, split
from tests.peers._wide import in_float64


@peer("temperature", "transformers")
def layer_of_llama4() -> Iterator[Case]:
    """Llama4TextAttention without RoPE, the whole layer, its float32 steps in float64"""

    def case(made: Temperature, heads: int, head_dim: int, length: int, past: int) -> Case:
        from transformers import DynamicCache
        from transformers.models.llama4 import modeling_llama4 as llama4

        config = llama4.Llama4TextConfig(
            hidden_size=24,
            num_attention_heads=heads,
            num_key_value_heads=heads // 2,
            head_dim=head_dim,
            no_rope_layers=[0] * 48,
            floor_scale=made.original_length,
            attn_scale=made.strength,
            attn_implementation="eager",
        )
        layer = llama4.Llama4TextAttention(config, layer_idx=0).double()
        seen = [torch.randn(2, heads // 2, past, head_dim, dtype=torch.float64) for _ in "kv"]

        def ours(x: Tensor) -> Tensor:
            q = split(layer.q_proj(x), heads)
            k, v = (split(project(x), heads // 2) for project in (layer.k_proj, layer.v_proj))
            k, v = torch.cat((seen[0], k), dim=-2), torch.cat((seen[1], v), dim=-2)
            return layer.o_proj(joined(attend(q, k, v, made, causal=True)))

        def theirs(x: Tensor) -> Tensor:
            cache = DynamicCache()
            cache.update(*seen, 0)
            mask = causal_mask(past + length, causal=True)[:, :, past:]
            with in_float64():
                return layer(x, torch.zeros(()), mask, cache)[0]

        x = torch.randn(2, length, 24, dtype=torch.float64)
        return Case(f"{made!r}, {length} after {past} tokens", ours, theirs, [x])

    yield case(Temperature("llama4", original_length=3, strength=0.7), 4, 8, 17, 0)
    yield case(Temperature("llama4", original_length=5), 12, 80, 1, 9)
    # Across the first step of the checkpoints' own settings.
    yield case(Temperature("llama4"), 4, 8, 6, 8_188)


@peer("temperature", "transformers")
def layer_of_ministral3() -> Iterator[Case]:
    """Ministral3Attention with exact RoPE, the whole layer, its float32 steps in float64"""

    def case(made: Temperature, heads: int, head_dim: int, at: Tensor) -> Case:
        from transformers.models.ministral3 import modeling_ministral3 as ministral3

        rotary = Rotary(head_dim)
        config = ministral3.Ministral3Config(
            hidden_size=24,
            num_attention_heads=heads,
            num_key_value_heads=heads // 2,
            head_dim=head_dim,
            max_position_embeddings=4 * (made.original_length or 0),
            rope_parameters={
                "rope_type": "yarn",
                "factor": 4.0,
                "rope_theta": rotary.base,
                "original_max_position_embeddings": made.original_length,
                "llama_4_scaling_beta": made.strength,
            },
            attn_implementation="eager",
        )
        layer = ministral3.Ministral3Attention(config, layer_idx=0).double()
        positions = Positions.build(ids=at, causal=True)

        def ours(x: Tensor) -> Tensor:
            q = split(layer.q_proj(x), heads)
            k, v = (split(project(x), heads // 2) for project in (layer.k_proj, layer.v_proj))
            out = attend(q, k, v, [rotary, made], positions=positions)
            return layer.o_proj(joined(out))

        def theirs(x: Tensor) -> Tensor:
            angle = (at[:, None] * rotary.frequencies()).repeat(1, 2)[None]
            with in_float64():
                mask = causal_mask(len(at), causal=True)
                return layer(x, (angle.cos(), angle.sin()), mask, at[None])[0]

        x = torch.randn(2, len(at), 24, dtype=torch.float64)
        return Case(f"{made!r}, positions from {int(at[0])}", ours, theirs, [x])

    short = Temperature("ministral", original_length=3, strength=0.7)
    yield case(short, 4, 8, torch.arange(17))
    yield case(short, 12, 80, torch.arange(1) + 10)
    # Across the first step of the checkpoints' own settings.
    yield case(Temperature("ministral"), 4, 8, torch.arange(6) + 16_381)


@peer("temperature", "transformers")
def scaling_of_deepseek_v3() -> Iterator[Case]:
    """the score scale that DeepseekV3Attention makes from YaRN's factor and mscale_all_dim"""

    def case(heads: int, head_dim: int, factor: float, mscale: float) -> Case:
        from transformers.models.deepseek_v3 import modeling_deepseek_v3 as deepseek

        config = deepseek.DeepseekV3Config(
            hidden_size=24,
            num_attention_heads=heads,
            num_key_value_heads=heads,
            qk_nope_head_dim=head_dim // 2,
            qk_rope_head_dim=head_dim // 2,
            rope_parameters={
                "rope_type": "yarn",
                "rope_theta": 10_000.0,
                "factor": factor,
                "original_max_position_embeddings": 4096,
                "mscale_all_dim": mscale,
            },
        )
        scaling = deepseek.DeepseekV3Attention(config, layer_idx=0).scaling
        made = Temperature("yarn", factor=factor, strength=0.1 * mscale)
        q, k = (torch.randn(2, heads, t, head_dim, dtype=torch.float64) for t in (5, 9))
        return Case(
            repr(made),
            lambda q, k: scores(q, k, made),
            lambda q, k: q @ k.mT * scaling,
            (q, k),
        )

    yield case(12, 80, factor=40.0, mscale=1.0)
    yield case(4, 8, factor=4.0, mscale=0.707)
    yield case(4, 8, factor=1.0, mscale=1.0)
