from collections.abc import Iterator

import torch
from torch import Tensor

from posenc.attention import attend
from posenc.encodings import Rotary, SinkLogits, SlidingWindow
from posenc.encodings.scaling import YaRN
from posenc.testing.agreement import Case, peer
from tests.peers._layers import joined, set_alike, split
from tests.peers._wide import in_float64


@peer("sink_logits", "transformers")
def layer_of_gpt_oss() -> Iterator[Case]:
    """GptOssAttention with YaRN, full and in a window, the whole layer, its angles in float64"""

    def case(heads: int, length: int, window: int | None) -> Case:
        from transformers.models.gpt_oss import modeling_gpt_oss as gpt_oss

        rope = {"rope_type": "yarn", "rope_theta": 150_000.0, "factor": 32.0, "truncate": False}
        rope["original_max_position_embeddings"] = 64
        config = gpt_oss.GptOssConfig(
            hidden_size=24,
            num_attention_heads=heads,
            num_key_value_heads=heads // 2,
            head_dim=16,
            max_position_embeddings=2048,
            rope_parameters=rope,
            attn_implementation="eager",
        )
        with in_float64():
            rotary = gpt_oss.GptOssRotaryEmbedding(config)
        layer = gpt_oss.GptOssAttention(config, layer_idx=0).double()
        ours = SinkLogits(heads).double()
        turn = Rotary(16, base=150_000.0, scaling=YaRN(32.0, 64, truncate=False))
        parts = [turn, ours] if window is None else [turn, SlidingWindow(window), ours]

        def by_posenc(x: Tensor) -> Tensor:
            q = split(layer.q_proj(x), heads)
            k, v = (split(project(x), heads // 2) for project in (layer.k_proj, layer.v_proj))
            return layer.o_proj(joined(attend(q, k, v, parts, causal=True)))

        def by_transformers(x: Tensor) -> Tensor:
            distance = torch.arange(length) - torch.arange(length)[:, None]
            hidden = (distance > 0) | (distance <= -(window or length))
            mask = torch.zeros(1, 1, length, length, dtype=x.dtype).masked_fill(hidden, -torch.inf)
            with in_float64():
                turned = rotary(x, torch.arange(length)[None])
                return layer(x, turned, mask)[0]

        x = torch.randn(2, length, 24, dtype=torch.float64)
        name = f"{heads} heads, {length} tokens, window {window}"
        weights = [set_alike(ours.get_parameter("logit"), layer.sinks)]
        return Case(name, by_posenc, by_transformers, [x], weights)

    yield case(4, 17, None)
    yield case(6, 90, 8)
