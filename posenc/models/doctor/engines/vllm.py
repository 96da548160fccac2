"""vLLM of 2026, read at 0cd5784 and, where it differs, at 07b12f1."""

import math
from typing import Any

from posenc.models.doctor.engine import Engine, Loss, kind, ropes
from posenc.models.doctor.finding import Values, Words

_SOURCE = "https://github.com/vllm-project/vllm/tree/0cd5784/vllm/model_executor/layers/"


def _own_gain(values: dict[str, Any]) -> bool:
    """A final gain is dropped, and the formula's is taken."""
    concerned = [x for x in ropes(values) if kind(x) == "yarn" and x.get("attention_factor")]
    for rope in concerned:
        # Where attn_factor is given too, older releases multiply the formula by it.
        factor = rope.pop("attn_factor", None)
        del rope["attention_factor"]
        if factor is not None and rope.get("factor"):
            rope["attention_factor"] = factor * (0.1 * math.log(rope["factor"]) + 1)
    return bool(concerned)


def both_gains(values: Values) -> dict[str, Any]:
    """attn_factor beside attention_factor: each engine reads the one and ignores the other."""
    name = next(x for x in ("rope_parameters", "rope_scaling") if isinstance(values.get(x), dict))
    rope = values[name]
    if not isinstance(rope.get("attention_factor"), int | float) or not rope.get("factor"):
        return {}
    return {name: {"attn_factor": rope["attention_factor"] / (0.1 * math.log(rope["factor"]) + 1)}}


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


VLLM = Engine(
    "vllm",
    "0.33 (0cd5784), before it 07b12f1",
    (
        Loss(
            "yarn-gain",
            _own_gain,
            Words(
                "Releases of vLLM before 2026 read attn_factor, not attention_factor: they take "
                "the formula's gain.",
                "2026 年之前的 vLLM 读取 attn_factor 而不读取 attention_factor：它们使用公式给出的增益。",
            ),
            "https://github.com/vllm-project/vllm/issues/48621",
            ("attention_factor",),
            both_gains,
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
