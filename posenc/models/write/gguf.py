"""GGUF's metadata for the rotation, and llama.cpp's flags."""

from collections.abc import Mapping
from typing import Any

from posenc.frequencies import magnitude
from posenc.models.angles import gain
from posenc.models.doctor.finding import Words
from posenc.models.spec import EncodingSpec, ModelSpec, ScalingSpec
from posenc.models.write.configs import kinds
from posenc.models.write.rope import divisors
from posenc.models.write.written import Line

_EXACT = Words("GGUF has a key for it.", "GGUF 有对应的键。")
_GROWS = Words(
    "GGUF has no scaling that grows with the input; choose a fixed base.",
    "GGUF 没有随输入增长的缩放；请选择一个固定基数。",
)
_ROUNDED = Words(
    "llama.cpp rounds YaRN's ramp to whole pairs.", "llama.cpp 把 YaRN 的斜坡取整到整对。"
)
_BETAS = Words(
    "llama.cpp reads the betas of YaRN from the files of few architectures: give them as flags.",
    "llama.cpp 只从少数架构的文件读取 YaRN 的 beta：请用参数给出。",
)
_IN_SCORES = Words(
    "llama.cpp multiplies all of MLA's scores by the gain of cos and sin, squared, too.",
    "llama.cpp 还会把 MLA 的全部分数乘以 cos 与 sin 增益的平方。",
)
_TENSOR = Words("Travels as a tensor of one divisor for each pair.", "以张量传递，每对一个除数。")
_IN_CHUNKS = Words(
    "GGUF has no key for dual chunk attention: positions go on as plain rotation has them.",
    "GGUF 没有双块注意力的键：位置按普通旋转继续下去。",
)
_FILE = Words(
    "Only the file can say it, as a tensor: convert the model anew.",
    "只能由文件以张量给出：请重新转换模型。",
)
_RESTS = 1e30
# Of their files llama.cpp divides YaRN's gain by that of mscale_all_dim.
_DIVIDED = frozenset({"ministral3", "mistral3"})
_ONE = Words(
    "Flags speak of all layers, and these differ: the file must say it.",
    "参数针对所有层，而这些层各不相同：必须由文件给出。",
)


def gguf_keys(
    spec: ModelSpec, arch: str
) -> tuple[dict[str, Any], dict[str, tuple[float, ...]], tuple[Line, ...]]:
    """The metadata under this architecture's name, the tensors, and the loss report."""
    layers = kinds(spec.main)
    keys: dict[str, Any] = {}
    tensors: dict[str, tuple[float, ...]] = {}
    lines: list[Line] = []
    if spec.main.trained_length:
        keys[f"{arch}.context_length"] = spec.main.trained_length
    whole = layers.get("full_attention") or next(iter(layers.values()), None)
    if whole is None or whole.rotary is None:
        return keys, tensors, ()
    settings = whole.rotary.settings
    keys[f"{arch}.rope.dimension_count"] = settings.get("rotary_dim", settings["dim"])
    keys[f"{arch}.rope.freq_base"] = settings["base"]
    lines.append(Line("base", "exact", _EXACT))
    if whole.rotary.name == "dual_chunk":
        lines.append(Line("dual_chunk_attention_config", "impossible", _IN_CHUNKS))
    local = layers.get("sliding_attention")
    if local is not None:
        # Of windows to both sides llama.cpp takes half of the number to each.
        width = local.window if local.causal or not local.window else 2 * (local.window - 1)
        keys[f"{arch}.attention.sliding_window"] = width
        if local.rotary is not None and local.rotary != whole.rotary:
            keys[f"{arch}.rope.freq_base_swa"] = local.rotary.settings["base"]
    scaling = settings.get("scaling")
    if scaling is not None:
        own, table, line = _scaling(whole.rotary, scaling, spec.model_type)
        keys |= {f"{arch}.rope.{name}": value for name, value in own.items()}
        tensors |= table
        lines.append(line)
    return keys, tensors, tuple(lines)


def _scaling(
    spec: EncodingSpec, scaling: ScalingSpec, model_type: str
) -> tuple[dict[str, Any], dict[str, tuple[float, ...]], Line]:
    settings = scaling.settings
    if scaling.name == "Linear":
        keys = {"scaling.type": "linear", "scaling.factor": settings["factor"]}
        return keys, {}, Line("scaling", "exact", _EXACT)
    if scaling.name == "YaRN" and settings.get("ramp", "code") == "code":
        gains = _gains(spec, settings, model_type)
        keys = {
            "scaling.type": "yarn",
            "scaling.factor": settings["factor"],
            "scaling.original_context_length": settings["original_length"],
            **gains,
        }
        keys |= {
            f"scaling.yarn_{name}": settings[name]
            for name in ("beta_fast", "beta_slow")
            if name in settings
        }
        if not settings.get("truncate", True):
            return keys, {}, Line("scaling", "approximate", _ROUNDED)
        if (settings.get("beta_fast", 32.0), settings.get("beta_slow", 1.0)) != (32.0, 1.0):
            return keys, {}, Line("scaling", "approximate", _BETAS)
        if "start" in spec.settings and abs(gains["scaling.attn_factor"] - 1) > 1e-6:
            return keys, {}, Line("scaling", "approximate", _IN_SCORES)
        return keys, {}, Line("scaling", "exact", _EXACT)
    if scaling.name == "DynamicNTK":
        return {}, {}, Line("scaling", "impossible", _GROWS)
    if scaling.name == "LongRoPE":
        keys = {
            "scaling.original_context_length": settings["original_length"],
            "scaling.attn_factor": gain(spec),
        }
        tensors = {
            "rope_factors_short.weight": tuple(settings["short"]),
            "rope_factors_long.weight": tuple(settings["long"]),
        }
        return keys, tensors, Line("scaling", "exact", _TENSOR)
    # Of a pair that rests, as the converter has it: JSON has no infinity.
    table = tuple(min(x, _RESTS) for x in divisors(spec))
    return {}, {"rope_freqs.weight": table}, Line("scaling", "exact", _TENSOR)


def _gains(spec: EncodingSpec, settings: Mapping[str, Any], model_type: str) -> dict[str, float]:
    """By what llama.cpp multiplies the gain that it has by itself, and what that is made of."""
    own, strength = magnitude(settings["factor"]), settings.get("mscale_all_dim")
    keys = {}
    if strength and "start" in spec.settings:
        # MLA's cos and sin have none; that of its scores is a tenth of this per factor of e.
        own, keys = 1.0, {"scaling.yarn_log_multiplier": strength / 10}
    elif strength and model_type in _DIVIDED:
        own /= magnitude(settings["factor"], strength)
        keys = {"scaling.yarn_log_multiplier": strength}
    return {"scaling.attn_factor": gain(spec) / own, **keys}


def llama_cpp_flags(spec: ModelSpec) -> tuple[tuple[str, ...], tuple[Line, ...]]:
    """What the command line can say over a file that was converted without it."""
    keys, tensors, lines = gguf_keys(spec, "")
    flags: list[str] = []
    if spec.main.trained_length:
        flags += ["--ctx-size", str(spec.main.trained_length)]
    names = {
        ".rope.freq_base": "--rope-freq-base",
        ".rope.scaling.type": "--rope-scaling",
        ".rope.scaling.factor": "--rope-scale",
        ".rope.scaling.original_context_length": "--yarn-orig-ctx",
        ".rope.scaling.attn_factor": "--yarn-attn-factor",
        ".rope.scaling.yarn_beta_fast": "--yarn-beta-fast",
        ".rope.scaling.yarn_beta_slow": "--yarn-beta-slow",
    }
    if ".rope.freq_base_swa" in keys:
        return tuple(flags), (Line("base", "impossible", _ONE),)
    if tensors:
        return tuple(flags), tuple(
            Line(x.about, "impossible", _FILE) if x.words is _TENSOR else x for x in lines
        )
    for key, flag in names.items():
        if key in keys:
            flags += [flag, str(keys[key])]
    return tuple(flags), lines
