"""mlx-lm of 2026, read at 060aa43."""

from typing import Any

from posenc.models.doctor.engine import Engine, Loss, kind, ropes
from posenc.models.doctor.finding import Values, Words

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
    return any(kind(rope) in ("dynamic", "ntk", "su") for rope in ropes(values))


def _top_level_base(values: dict[str, Any]) -> bool:
    inner = values.get("rope_parameters")
    if not isinstance(inner, dict) or values.get("rope_theta") is not None:
        return False
    if "rope_theta" not in inner:
        return False
    del values["rope_parameters"]
    return True


def older(values: Values) -> dict[str, Any]:
    """The same settings under the keys of transformers 4, beside the new ones."""
    inner = dict(values["rope_parameters"])
    base = inner.pop("rope_theta")
    patch: dict[str, Any] = {"rope_theta": base}
    if kind(inner) != "default":
        patch["rope_scaling"] = inner
    return patch


MLX = Engine(
    "mlx",
    "mlx-lm 060aa43",
    (
        Loss(
            "base-by-default",
            _top_level_base,
            Words(
                "The base stands in rope_parameters, which many of mlx-lm's models do not read: "
                "they take their default base, and no scaling.",
                "基数写在 rope_parameters 中，而 mlx-lm 的许多模型不读取它：它们使用默认基数，且不缩放。",
            ),
            "https://github.com/ml-explore/mlx-lm/issues/953",
            ("rope_parameters.rope_theta",),
            older,
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
            fails=True,
        ),
    ),
)
