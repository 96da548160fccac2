"""vLLM of 2026, read at 0cd5784."""

from typing import Any

from posenc.frequencies import magnitude, yarn_gain
from posenc.models.doctor.engine import Engine, Loss
from posenc.models.doctor.finding import Values, Words
from posenc.models.spellings import kind, ropes

_SOURCE = "https://github.com/vllm-project/vllm/tree/0cd5784/vllm/model_executor/layers/"


def _own_gain(values: dict[str, Any]) -> bool:
    """No final gain and no mscale is read, and the formula's gain is taken, times attn_factor."""
    # DeepSeek's own YaRN is another class, which reads the two mscales.
    if str(values.get("model_type")).startswith(("deepseek", "kimi")):
        return False
    concerned = [
        x for x in ropes(values) if kind(x) == "yarn" and any(x.get(name) for name in _GAINS)
    ]
    for rope in concerned:
        for name in _GAINS:
            rope.pop(name, None)
        if (factor := rope.pop("attn_factor", None)) is not None and rope.get("factor"):
            rope["attention_factor"] = factor * magnitude(rope["factor"])
    return bool(concerned)


def _no_temperature(values: dict[str, Any]) -> bool:
    """Mistral's attention looks for llama_4_scaling at the top level alone."""
    concerned = [x for x in ropes(values) if x.get("llama_4_scaling_beta")]
    for rope in concerned:
        del rope["llama_4_scaling_beta"]
    return bool(concerned) and values.get("model_type") in ("ministral3", "mistral")


def both_gains(values: Values) -> dict[str, Any]:
    """attn_factor beside what is there: transformers ignores it, and these engines read it alone."""
    name = next(x for x in ("rope_parameters", "rope_scaling") if isinstance(values.get(x), dict))
    rope = values[name]
    if not isinstance(rope.get("factor"), int | float):
        return {}
    numbers = {key: rope.get(key) for key in _GAINS}
    meant = yarn_gain(factor=rope["factor"], **numbers)
    return {name: {"attn_factor": meant / magnitude(rope["factor"])}}


def _long_gain(values: dict[str, Any]) -> bool:
    concerned = [x for x in ropes(values) if kind(x) in ("longrope", "su")]
    lost = [x for x in concerned if x.get("attention_factor") and "short_mscale" not in x]
    for rope in lost:
        del rope["attention_factor"]
    return bool(lost)


def both_scales(values: Values) -> dict[str, Any]:
    """The gain of "longrope" under the names that vLLM and SGLang read."""
    name = next(x for x in ("rope_parameters", "rope_scaling") if isinstance(values.get(x), dict))
    factor = values[name].get("attention_factor")
    return {name: {"short_mscale": factor, "long_mscale": factor}}


_GAINS = ("attention_factor", "mscale", "mscale_all_dim")

VLLM = Engine(
    "vllm",
    "0.25 to 0.33 (0cd5784)",
    (
        Loss(
            "yarn-gain",
            _own_gain,
            Words(
                "vLLM passes neither attention_factor nor mscale on to YaRN: it takes the "
                "formula's gain, 0.1 ln(factor) + 1.",
                "vLLM 不把 attention_factor 和 mscale 传给 YaRN：它使用公式给出的增益 0.1 ln(factor) + 1。",
            ),
            "https://github.com/vllm-project/vllm/issues/48621",
            ("attention_factor",),
            both_gains,
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
            "long-rope-gain",
            _long_gain,
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
