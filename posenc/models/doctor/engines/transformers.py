"""transformers 5.24.0, run with each of these."""

from typing import Any

from posenc.models.doctor.engine import Engine, Loss
from posenc.models.doctor.engines.whole_heads import WHOLE_HEADS
from posenc.models.doctor.finding import Values, Words
from posenc.models.spellings import kind, ropes, ropes_patch

_UNKNOWN = {"su": "longrope", "mrope": "default", "ntk": None, "deepseek_yarn": "yarn"}
# Whose configuration classes translate an old name.
_TRANSLATED = {
    "su": {"phi3", "phi3_v"},
    "mrope": {"qwen2_vl", "qwen2_vl_text", "qwen2_5_vl"},
    "deepseek_yarn": {"sarvam_mla"},
}
_SOURCE = "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/"


def _no_truncate(values: dict[str, Any]) -> bool:
    """Where settings are nested by kind of layer, `truncate` is looked for beside the kinds."""
    outer = values.get("rope_parameters")
    if not isinstance(outer, dict) or "truncate" in outer:
        return False
    nested = [x for x in outer.values() if isinstance(x, dict) and x.get("truncate") is False]
    for rope in nested:
        rope["truncate"] = True
    return bool(nested)


def _beside(values: Values) -> dict[str, Any]:
    return {"rope_parameters": {"truncate": False}}


def _whole_heads(values: dict[str, Any]) -> bool:
    if values.get("model_type") not in WHOLE_HEADS:
        return False
    holders = [x for x in (values, *ropes(values)) if x.get("partial_rotary_factor") is not None]
    default = all(kind(rope) == "default" for rope in ropes(values))
    for holder in holders:
        del holder["partial_rotary_factor"]
    return bool(holders) and default


def _crashes(values: dict[str, Any]) -> bool:
    if values.get("model_type") not in WHOLE_HEADS:
        return False
    holders = [
        x for x in (values, *ropes(values)) if x.get("partial_rotary_factor") not in (None, 1)
    ]
    return bool(holders) and any(kind(x) not in ("default", "proportional") for x in ropes(values))


def _nested_dynamic(values: dict[str, Any]) -> bool:
    outer = values.get("rope_parameters")
    inner = outer.values() if isinstance(outer, dict) else ()
    return any(isinstance(rope, dict) and kind(rope) == "dynamic" for rope in inner)


def _unknown(values: dict[str, Any]) -> bool:
    return any(
        kind(rope) in _UNKNOWN and values.get("model_type") not in _TRANSLATED.get(kind(rope), ())
        for rope in ropes(values)
    )


def _long_rope_only(values: dict[str, Any]) -> bool:
    """Its "yarn" is taken for longrope, which loads where the lists of factors are there."""
    if values.get("model_type") != "phi3":
        return False
    return any(
        kind(rope) not in ("default", "longrope", "su")
        and not (kind(rope) == "yarn" and {"short_factor", "long_factor"} <= rope.keys())
        for rope in ropes(values)
    )


def _renamed(values: Values) -> dict[str, Any]:
    def known(rope: Values) -> dict[str, Any]:
        name = _UNKNOWN.get(kind(rope))
        return {"type": None, "rope_type": name} if name else {}

    return ropes_patch(values, known)


def _short_alone(values: dict[str, Any]) -> bool:
    """Its frequencies are made anew at each forward, of no length, and so of the short factors."""
    concerned = [x for x in ropes(values) if kind(x) == "longrope" and "short_factor" in x]
    for rope in concerned:
        rope["long_factor"] = rope["short_factor"]
    return bool(concerned) and values.get("model_type") == "phimoe"


def _no_layer_types(values: dict[str, Any]) -> bool:
    return values.get("model_type") == "mistral" and values.pop("layer_types", None) is not None


def _pattern_fails(values: dict[str, Any]) -> bool:
    if values.get("model_type") != "exaone4" or values.get("layer_types") is not None:
        return False
    pattern = values.get("sliding_window_pattern", 4)
    return values.get("sliding_window", 4096) is not None and not isinstance(pattern, int)


def _sliding_base(values: dict[str, Any]) -> bool:
    """The base of an older file is taken for the layers that see everything, and then gone."""
    base = values.get("rope_theta")
    if values.get("model_type") != "olmo3" or base is None or "rope_parameters" in values:
        return False
    whole = {**(values.pop("rope_scaling", None) or {}), "rope_theta": base}
    sliding = {"rope_type": "default", "rope_theta": 500_000.0}
    values["rope_parameters"] = {"full_attention": whole, "sliding_attention": sliding}
    del values["rope_theta"]
    return True


def _unsaid_base(values: dict[str, Any]) -> bool:
    """Of EXAONE before 4, whose published files all say it."""
    holders = [values, *ropes(values)]
    if values.get("model_type") != "exaone" or any(x.get("rope_theta") for x in holders):
        return False
    values["rope_theta"] = 500_000.0
    return True


def _no_dual_chunk(values: dict[str, Any]) -> bool:
    """No code asks for it."""
    return bool(values.pop("dual_chunk_attention_config", None))


def _sections_of_dimensions(values: dict[str, Any]) -> bool:
    """Each section is doubled where the list of them should be repeated."""
    if not str(values.get("model_type")).startswith("hunyuan_vl"):
        return False
    return any({"xdrope_section", "mrope_section"} & set(rope) for rope in ropes(values))


TRANSFORMERS = Engine(
    "transformers",
    "5.24.0",
    (
        Loss(
            "yarn-truncate",
            _no_truncate,
            Words(
                "YaRN's truncate stands within a kind of layer, and transformers looks for it "
                "beside the kinds: the ramp is rounded to whole pairs all the same.",
                "YaRN 的 truncate 写在层类型之内，而 transformers 在层类型旁边查找它：斜坡仍被取整到整对。",
            ),
            _SOURCE + "modeling_rope_utils.py#L475",
            ("rope_parameters",),
            _beside,
        ),
        Loss(
            "partial-ignored",
            _whole_heads,
            Words(
                "This model type's code does not read partial_rotary_factor: whole heads turn.",
                "该模型类型的代码不读取 partial_rotary_factor：整个头都会旋转。",
            ),
            _SOURCE + "models/llama/modeling_llama.py",
            ("partial_rotary_factor",),
        ),
        Loss(
            "partial-crashes",
            _crashes,
            Words(
                "With a scaling, tables are as wide as partial_rotary_factor says and heads turn "
                "whole: the first forward raises.",
                "带缩放时，表的宽度按 partial_rotary_factor，而头整个旋转：第一次前向就会报错。",
            ),
            _SOURCE + "modeling_rope_utils.py",
            ("partial_rotary_factor",),
            weight="error",
        ),
        Loss(
            "long-rope-short-alone",
            _short_alone,
            Words(
                "transformers' phimoe turns by the short factors at every length.",
                "transformers 的 phimoe 在任何长度下都按短因子旋转。",
            ),
            _SOURCE + "models/phimoe/modeling_phimoe.py",
            ("long_factor",),
        ),
        Loss(
            "layer-types-ignored",
            _no_layer_types,
            Words(
                "transformers' mistral does not read layer_types: every layer slides. Its model "
                "type ministral reads them.",
                "transformers 的 mistral 不读取 layer_types：所有层都滑动。模型类型 ministral 会读取。",
            ),
            _SOURCE + "models/mistral/configuration_mistral.py#L87",
            ("layer_types",),
            lambda values: {"model_type": "ministral"},
        ),
        Loss(
            "sliding-base",
            _sliding_base,
            Words(
                "transformers takes an older OLMo 3 file's base for the layers that see "
                "everything alone; those that slide turn by 500000.",
                "对旧写法的 OLMo 3 文件，transformers 只把基数用于全局层；滑动层按 500000 旋转。",
            ),
            _SOURCE + "models/olmo3/configuration_olmo3.py",
            ("rope_theta",),
        ),
        Loss(
            "unsaid-base",
            _unsaid_base,
            Words(
                "The file says no base, for which EXAONE's own code takes 10000 and transformers "
                "500000.",
                "文件没有给出基数：EXAONE 自己的代码取 10000，transformers 取 500000。",
            ),
            _SOURCE + "models/exaone/configuration_exaone.py#L88",
            ("rope_theta",),
            lambda values: {"rope_theta": 10_000.0},
        ),
        Loss(
            "pattern-fails",
            _pattern_fails,
            Words(
                "transformers reads sliding_window_pattern as a number: this file does not load. "
                "Give layer_types.",
                "transformers 把 sliding_window_pattern 当作数字读取：该文件无法加载。请给出 layer_types。",
            ),
            _SOURCE + "models/exaone4/configuration_exaone4.py#L103",
            ("sliding_window_pattern",),
            weight="error",
        ),
        Loss(
            "dual-chunk-dropped",
            _no_dual_chunk,
            Words(
                "transformers does not read dual_chunk_attention_config: beyond the length of a "
                "chunk, tokens are as far apart as training has never seen.",
                "transformers 不读取 dual_chunk_attention_config：超过一块的长度后，词元之间的距离是训练中从未见过的。",
            ),
            _SOURCE + "models/qwen2/modeling_qwen2.py",
            ("dual_chunk_attention_config",),
        ),
        Loss(
            "sections-of-dimensions",
            _sections_of_dimensions,
            Words(
                "transformers deals HunYuan-VL's axes out to dimensions of a table that holds "
                "each pair twice: the two dimensions of a pair turn by different axes, which is "
                "no rotation. Text alone is right, images are not.",
                "transformers 把 HunYuan-VL 的坐标轴分给一张每对存两次的表的各维：一对的两维按不同的轴转，"
                "这不是旋转。纯文本没有问题，图像则不对。",
            ),
            _SOURCE + "models/hunyuan_vl/modeling_hunyuan_vl.py#L186",
            ("xdrope_section",),
            weight="error",
        ),
        Loss(
            "nested-dynamic",
            _nested_dynamic,
            Words(
                "For dynamic scalings by kind of layer, transformers writes a new gain where "
                "nobody reads it. It is 1 before and after, so nothing changes today.",
                "对按层类型设置的动态缩放，transformers 把新的增益写到无人读取之处。其值前后都是 1，故目前没有影响。",
            ),
            _SOURCE + "modeling_rope_utils.py#L103",
            ("rope_type",),
            weight="note",
        ),
        Loss(
            "unknown-type",
            _unknown,
            Words(
                "transformers has no such rope_type: the model is not built (KeyError).",
                "transformers 没有这个 rope_type：模型无法构建（KeyError）。",
            ),
            _SOURCE + "modeling_rope_utils.py#L669",
            ("rope_type",),
            _renamed,
            weight="error",
        ),
        Loss(
            "long-rope-only",
            _long_rope_only,
            Words(
                "transformers' phi3 takes yarn for longrope, whose factors are missing, and "
                "refuses other types: the model does not load. Any fixed frequencies can be "
                "written as the factors of longrope.",
                "transformers 的 phi3 把 yarn 当作 longrope，而其因子缺失；其他类型一律拒绝：模型无法加载。"
                "任何固定的频率都可以写成 longrope 的因子。",
            ),
            _SOURCE + "models/phi3/configuration_phi3.py#L100",
            ("rope_type",),
            weight="error",
        ),
    ),
)
