"""Keys of one file that say different things of one matter: of rotation, or of windows."""

from collections.abc import Iterator, Mapping
from typing import Any

from posenc.models.doctor.finding import Case, Finding, Words
from posenc.models.spellings import text


def said_twice(case: Case) -> Iterator[Finding]:
    """One engine then runs another model of the file than the next, or none."""
    values = text(dict(case.values))
    kinds = values.get("layer_types")
    listed = isinstance(kinds, list | tuple) and "sliding_attention" in kinds
    # Others read the list alone.
    if listed and values.get("use_sliding_window") is False and case.spec.model_type in _QWEN:
        yield Finding(
            "said-twice",
            "error",
            Words(
                "layer_types has layers with a window, and use_sliding_window says that there are "
                "none: transformers keeps no width for them and raises a TypeError.",
                "layer_types 中有带窗口的层，而 use_sliding_window 说没有窗口："
                "transformers 不保留窗口宽度，会引发 TypeError。",
            ),
            keys=("use_sliding_window", "layer_types"),
        )
    inner, older = values.get("rope_parameters"), values.get("rope_scaling")
    if not isinstance(inner, Mapping):
        return
    # Two bases or two shares that contradict each other are refused when they are read.
    if isinstance(older, Mapping) and _plain(older) - _plain(inner):
        yield Finding(
            "said-twice",
            "error",
            Words(
                "Two keys that mean the same say different things: engines choose differently.",
                "两个含义相同的键给出不同的值：各引擎的选择不同。",
            ),
            keys=("rope_scaling", "rope_parameters"),
        )


_QWEN = frozenset({"qwen2", "qwen3", "qwen3_moe"})


def _plain(rope: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Its settings, whichever of its names the type has."""
    names = {"type": "rope_type"}
    return {(names.get(name, name), repr(x)) for name, x in rope.items() if x is not None}
