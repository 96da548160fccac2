from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from posenc.attention import attend
from posenc.caches.latent import LatentCache
from posenc.encodings import Rotary, RotaryValues
from posenc.testing.agreement import Case, peer
from tests.peers._layers import causal_mask, split
from tests.peers._wide import in_float64

HEADS, DIM, WIDTH = 4, 24, 20
# Tokens cached by a first call, tokens of the calls that are compared, one at a time.
STEPS = [(0, 9), (5, 3)]


@peer("rotary_values", "transformers")
def layer_of_deepseek_v4() -> Iterator[Case]:
    """DeepseekV4Attention of a sliding layer, whole, without sinks, its float32 steps in float64"""
    from transformers import DynamicCache
    from transformers.models.deepseek_v4 import modeling_deepseek_v4 as code

    def case(turned: int, base: float, past: int, new: int) -> Case:
        config = code.DeepseekV4Config(
            hidden_size=WIDTH,
            num_attention_heads=HEADS,
            head_dim=DIM,
            partial_rotary_factor=turned / DIM,
            qk_rope_head_dim=turned,
            rope_theta=base,
            q_lora_rank=16,
            o_groups=2,
            o_lora_rank=12,
            num_hidden_layers=2,
            layer_types=["sliding_attention"] * 2,
            attn_implementation="eager",
        )
        layer = code.DeepseekV4Attention(config, layer_idx=0).double()
        torch.nn.init.constant_(layer.sinks, -torch.inf)
        with in_float64():
            waves = code.DeepseekV4RotaryEmbedding(config)
        settings: dict[str, Any] = {"layout": "interleaved", "rotary_dim": turned, "start": -turned}
        encoding = [Rotary(DIM, base, **settings), RotaryValues(DIM, base, **settings)]
        parts = [past] * (past > 0) + ([new] if past == 0 else [1] * new)

        def ours(x: Tensor) -> Tensor:
            cache, outs = LatentCache(), []
            for part in x.split(parts, dim=1):
                with in_float64():
                    q = layer.q_b_norm(
                        split(layer.q_b_proj(layer.q_a_norm(layer.q_a_proj(part))), HEADS)
                    )
                    kv = layer.kv_norm(layer.kv_proj(part))[:, None]
                out = attend(q, kv, kv, encoding, causal=True, cache=cache).transpose(1, 2)
                grouped = out.reshape(*part.shape[:2], config.o_groups, -1)
                outs.append(layer.o_b_proj(layer.o_a_proj(grouped).flatten(2)))
            return torch.cat(outs, dim=1)

        def theirs(x: Tensor) -> Tensor:
            cache, mask, outs, start = DynamicCache(), causal_mask(past + new, True), [], 0
            with in_float64():
                for part in x.split(parts, dim=1):
                    end = start + part.shape[1]
                    at = torch.arange(start, end).expand(len(x), -1)
                    turns = {"main": waves(x, at, layer_type="main")}
                    outs.append(layer(part, turns, at, mask[..., start:end, :end], cache)[0])
                    start = end
            return torch.cat(outs, dim=1)

        x = torch.randn(2, past + new, WIDTH, dtype=torch.float64)
        name = f"{turned} of {DIM} dimensions, base {base:g}, {new} tokens after {past}"
        return Case(name, ours, theirs, [x])

    for turned, base in ((8, 10_000.0), (DIM, 500.0)):
        yield from (case(turned, base, *step) for step in STEPS)
