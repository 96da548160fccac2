"""mlx-lm of 2026, read at 060aa43; InternLM and Hunyuan at 0f65ca4, 1e5589e and 180c961."""

from typing import Any

from posenc.models.doctor.engine import Engine, Loss
from posenc.models.doctor.finding import Words
from posenc.models.spellings import kind, older, ropes

# Whose files have a "dynamic" of their own, and do not ask rope_utils.
_OWN = frozenset({"hunyuan_v1_dense", "internlm2", "internlm3"})
_SOURCE = "https://github.com/ml-explore/mlx-lm/blob/060aa43/mlx_lm/models/rope_utils.py"


def _no_truncate(values: dict[str, Any]) -> bool:
    concerned = [x for x in ropes(values) if kind(x) == "yarn" and x.get("truncate") is False]
    for rope in concerned:
        rope["truncate"] = True
    return bool(concerned)


def _long_alone(values: dict[str, Any]) -> bool:
    concerned = [x for x in ropes(values) if kind(x) == "longrope" and "long_factor" in x]
    for rope in concerned:
        rope["short_factor"] = rope["long_factor"]
    return bool(concerned)


def _unknown(values: dict[str, Any]) -> bool:
    if values.get("model_type") in _OWN:
        return False
    return any(kind(rope) in ("dynamic", "ntk", "su") for rope in ropes(values))


def _scaling_dropped(values: dict[str, Any]) -> bool:
    """Qwen3's takes the base from rope_parameters, and its scaling from rope_scaling alone."""
    inner = values.get("rope_parameters")
    if values.get("model_type") != "qwen3" or not isinstance(inner, dict):
        return False
    if values.get("rope_scaling") is not None or kind(inner) == "default":
        return False
    values["rope_parameters"] = {"rope_theta": inner.get("rope_theta", 100_000.0)}
    return True


MLX = Engine(
    "mlx",
    "mlx-lm 060aa43",
    (
        Loss(
            "scaling-dropped",
            _scaling_dropped,
            Words(
                "mlx-lm's qwen3 takes the base from rope_parameters, and its scaling from "
                "rope_scaling alone: nothing is stretched.",
                "mlx-lm 的 qwen3 从 rope_parameters 读取基数，但只从 rope_scaling 读取缩放：不会拉伸。",
            ),
            "https://github.com/ml-explore/mlx-lm/pull/953",
            ("rope_parameters",),
            lambda values: older(values["rope_parameters"]),
        ),
        Loss(
            "yarn-truncate",
            _no_truncate,
            Words(
                "mlx-lm does not read truncate: YaRN's ramp is rounded to whole pairs.",
                "mlx-lm 不读取 truncate：YaRN 的斜坡被取整到整对。",
            ),
            _SOURCE,
            ("truncate",),
        ),
        Loss(
            "long-rope-long-alone",
            _long_alone,
            Words(
                "mlx-lm takes the long factors for inputs of every length.",
                "mlx-lm 对任何长度的输入都使用长因子。",
            ),
            _SOURCE,
            ("short_factor",),
        ),
        Loss(
            "unknown-type",
            _unknown,
            Words(
                "mlx-lm has no such scaling: the model does not load (ValueError).",
                "mlx-lm 没有这种缩放：模型无法加载（ValueError）。",
            ),
            _SOURCE,
            ("rope_type",),
            weight="error",
        ),
    ),
)
