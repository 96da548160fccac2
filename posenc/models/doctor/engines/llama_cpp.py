"""llama.cpp and its converter, read at 0024aa7, 001d906, 0274f0f and 051139f."""

from typing import Any

from posenc.models.doctor.engine import Engine, Loss
from posenc.models.doctor.finding import Words
from posenc.models.spellings import kind, ropes

_SOURCE = "https://github.com/ggml-org/llama.cpp/blob/0274f0f/conversion/llama.py"


def _not_dynamic(values: dict[str, Any]) -> bool:
    # The converter multiplies Hunyuan's base by what its alpha makes of it, once and for all.
    if str(values.get("model_type")).startswith("hunyuan_v1"):
        return False
    concerned = [x for x in ropes(values) if kind(x) in ("dynamic", "ntk")]
    for rope in concerned:
        rope.pop("type", None)
        rope["rope_type"] = "default"
    return bool(concerned)


def _top_level_length(values: dict[str, Any]) -> bool:
    """The converter takes the length before the stretch from the top level, 8192 by default."""
    concerned = [x for x in ropes(values) if kind(x) == "llama3"]
    for rope in concerned:
        rope["original_max_position_embeddings"] = values.get(
            "original_max_position_embeddings", 8192
        )
    return bool(concerned)


def _no_truncate(values: dict[str, Any]) -> bool:
    concerned = [x for x in ropes(values) if kind(x) == "yarn" and x.get("truncate") is False]
    for rope in concerned:
        rope["truncate"] = True
    return bool(concerned)


LLAMA_CPP = Engine(
    "llama.cpp",
    "0024aa7, 001d906, converter 0274f0f and 051139f",
    (
        Loss(
            "no-dynamic",
            _not_dynamic,
            Words(
                "GGUF has no scaling that grows with the input: none is applied. Choose a fixed "
                "base with --rope-freq-base.",
                "GGUF 没有随输入增长的缩放：不会进行缩放。请用 --rope-freq-base 选择一个固定基数。",
            ),
            _SOURCE,
            ("rope_type",),
        ),
        Loss(
            "llama3-length",
            _top_level_length,
            Words(
                "The converter reads the length before the stretch at the top level alone, and "
                "takes 8192 where it is not there.",
                "转换器只在顶层读取拉伸前的长度，缺省时取 8192。",
            ),
            _SOURCE,
            ("original_max_position_embeddings",),
            lambda values: {
                "original_max_position_embeddings": ropes(values)[0].get(
                    "original_max_position_embeddings"
                )
            },
        ),
        Loss(
            "yarn-truncate",
            _no_truncate,
            Words(
                "GGUF has no key for truncate: YaRN's ramp is rounded to whole pairs.",
                "GGUF 没有 truncate 的键：YaRN 的斜坡被取整到整对。",
            ),
            _SOURCE,
            ("truncate",),
        ),
    ),
)
