"""vLLM of 2026, read at 07b12f1 and, later, at 0cd5784."""

from typing import Any

from posenc.models.doctor.engine import Engine, Loss
from posenc.models.doctor.engines.gains import (
    attn_factor_for,
    both_scales,
    by_formula,
    long_rope_taken,
    yarn_taken_by,
)
from posenc.models.doctor.finding import Words
from posenc.models.spellings import ropes

_SOURCE = "https://github.com/vllm-project/vllm/tree/0cd5784/vllm/model_executor/layers/"


def _no_dual_chunk(values: dict[str, Any]) -> bool:
    """Its engine since 0.11 has no attention that reads the three queries."""
    return bool(values.pop("dual_chunk_attention_config", None))


def _no_temperature(values: dict[str, Any]) -> bool:
    """Mistral's attention looks for llama_4_scaling at the top level alone."""
    concerned = [x for x in ropes(values) if x.get("llama_4_scaling_beta")]
    for rope in concerned:
        del rope["llama_4_scaling_beta"]
    return bool(concerned) and values.get("model_type") in ("ministral3", "mistral")


VLLM = Engine(
    "vllm",
    "0.25 (07b12f1), 0cd5784",
    (
        Loss(
            "yarn-gain",
            yarn_taken_by(by_formula),
            Words(
                "vLLM 0.25 reads no attention_factor, and the mscale pair of DeepSeek's models "
                "alone: it takes YaRN's formula, times attn_factor. At 0cd5784 it reads both, of "
                "DeepSeek's models the pair.",
                "vLLM 0.25 不读取 attention_factor，且只对 DeepSeek 的模型读取 mscale 对："
                "它使用 YaRN 的公式，再乘以 attn_factor。0cd5784 两者都读取，对 DeepSeek 的模型只读取 mscale 对。",
            ),
            "https://github.com/vllm-project/vllm/issues/48621",
            ("attention_factor",),
            attn_factor_for(by_formula),
        ),
        Loss(
            "temperature-dropped",
            _no_temperature,
            Words(
                "vLLM looks for Llama 4's scaling of queries at the top level, not in "
                "rope_parameters: queries beyond the original length are not scaled.",
                "vLLM 只在顶层而不在 rope_parameters 中查找 Llama 4 的查询缩放：超出原始长度的查询不会被缩放。",
            ),
            "https://github.com/vllm-project/vllm/issues/48621",
            ("llama_4_scaling_beta",),
        ),
        Loss(
            "dual-chunk-dropped",
            _no_dual_chunk,
            Words(
                "vLLM has no attention for dual_chunk_attention_config since 0.11: the rotation "
                "is made, and nothing runs it. The engine before, V0, did.",
                "vLLM 自 0.11 起没有能执行 dual_chunk_attention_config 的注意力：旋转算出来了，却无人使用。此前的 V0 引擎可以。",
            ),
            "https://github.com/vllm-project/vllm/issues/49296",
            ("dual_chunk_attention_config",),
            weight="error",
        ),
        Loss(
            "long-rope-gain",
            long_rope_taken,
            Words(
                "vLLM reads short_mscale and long_mscale, not attention_factor, of longrope.",
                "对于 longrope，vLLM 读取 short_mscale 和 long_mscale，而不读取 attention_factor。",
            ),
            _SOURCE,
            ("attention_factor",),
            both_scales,
        ),
    ),
)
