"""`write`: a configuration in the words of an engine, and what is lost on the way."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from os import PathLike
from typing import Any

from posenc.errors import ConfigError, UnknownNameError, UnsupportedError
from posenc.models.angles import compare
from posenc.models.doctor.engine import Engine
from posenc.models.doctor.engines import ENGINES
from posenc.models.doctor.finding import Case, Words
from posenc.models.read import read, read_with_values
from posenc.models.spec import ModelSpec
from posenc.models.spellings import merged, text, within_text
from posenc.models.write.architectures import architecture_of
from posenc.models.write.configs import newer_config, older_config
from posenc.models.write.gguf import gguf_keys, llama_cpp_flags
from posenc.models.write.written import Line, Written

__all__ = ["TARGETS", "Line", "Written", "write"]

_Source = str | PathLike[str] | Mapping[str, Any]


def write(source: _Source, target: str) -> Written:
    """What a target is to be given so that it runs the model as its file means it.

    target is "hf4", "hf5" or "mlx" for a whole config.json, "vllm", "sglang" or "llama.cpp" for
    flags, and "gguf" for metadata. Every line of the result says what travels exactly, what only
    approximately and by how much, and what not at all. Raises ConfigError and UnknownNameError as
    `read` does, and UnknownNameError for an unknown target.

    Example: `write("config.json", "vllm").flags`.
    """
    if target not in TARGETS:
        raise UnknownNameError("target", target, TARGETS)
    spec, values = read_with_values(source)
    if values is None:
        raise ConfigError(
            f"{spec.origin} is a GGUF file: give the config.json that it was made from"
        )
    try:
        return TARGETS[target](values, spec)
    except UnsupportedError as error:
        words = Words(str(error), f"posenc 没有这种缩放的公式：{error}")
        return Written(target, lines=(Line("scaling", "impossible", words),))


def _config(
    values: Mapping[str, Any], spec: ModelSpec, target: str, config: dict[str, Any] | None
) -> Written:
    """A config.json, read once more to see what is lost."""
    if config is None:
        words = Words(
            "Layers of different kinds turn differently, and these keys have room for one.",
            "不同类型的层旋转方式不同，而这些键只能写一种。",
        )
        return Written(target, lines=(Line("layer_types", "impossible", words),))
    try:
        return Written(target, config=config, lines=_lines(spec, read(config)))
    except ConfigError as error:
        words = Words(f"Its code reads keys of its own: {error}", f"其代码读取自己的键：{error}")
        return Written(target, lines=(Line("rotation", "impossible", words),))


def _lines(spec: ModelSpec, other: ModelSpec) -> tuple[Line, ...]:
    effect = compare(spec, other, spec.main.trained_length or 8192)
    # A base that is written as another number may differ in its last digit.
    if effect is None or (max(effect.angle, abs(effect.gain - 1)) < 1e-6 and not effect.others):
        words = Words("Angles, gains and windows are the same.", "角度、增益和窗口都相同。")
        return (Line("rotation", "exact", words),)
    if effect.others:
        words = Words("Windows, chunks or temperatures differ.", "窗口、分块或温度不同。")
        return (Line("layers", "approximate", words),)
    words = Words(
        f"{effect.distance} tokens apart, angles are off by up to {effect.angle:.3g} rad, "
        f"cos and sin are {effect.gain:.4g} times what is meant.",
        f"相距 {effect.distance} 个词元时，角度误差最大 {effect.angle:.3g} 弧度，"
        f"cos 与 sin 是应有值的 {effect.gain:.4g} 倍。",
    )
    return (Line("rotation", "approximate", words),)


def _hf4(values: Mapping[str, Any], spec: ModelSpec) -> Written:
    return _config(values, spec, "hf4", older_config(values, spec.main))


def _hf5(values: Mapping[str, Any], spec: ModelSpec) -> Written:
    written = _config(values, spec, "hf5", newer_config(values, spec.main))
    return _judged(written, ENGINES["transformers"], spec)


def _mlx(values: Mapping[str, Any], spec: ModelSpec) -> Written:
    """The older keys beside the new ones: some of its models read the ones, some the others."""
    older, newer = older_config(values, spec.main), newer_config(values, spec.main)
    if older is None:
        return _judged(_config(values, spec, "mlx", newer), ENGINES["mlx"], spec)
    inner = text(older)
    if "rope_parameters" in text(newer):
        inner["rope_parameters"] = text(newer)["rope_parameters"]
    return _judged(_config(values, spec, "mlx", older), ENGINES["mlx"], spec)


def _overrides(engine: str, flag: str, length: str) -> Callable[[Any, ModelSpec], Written]:
    """Keys laid over the file's own on the command line, with what this engine needs besides."""

    def of(values: Mapping[str, Any], spec: ModelSpec) -> Written:
        config = newer_config(values, spec.main)
        for finding in ENGINES[engine].findings(_case(spec, config)):
            if finding.patch is not None:
                config = merged(config, finding.patch)
        rope = text(config).get("rope_parameters")
        over = within_text(config, {"rope_parameters": rope})
        flags = [flag, json.dumps(over)] if rope is not None else []
        if spec.main.trained_length:
            flags += [length, str(spec.main.trained_length)]
        written = replace(_config(values, spec, engine, config), config=None, flags=tuple(flags))
        return _judged(written, ENGINES[engine], spec, config)

    return of


def _judged(
    written: Written, engine: Engine, spec: ModelSpec, config: Mapping[str, Any] | None = None
) -> Written:
    """With a line for each thing that the engine still makes otherwise."""
    whole = written.config if config is None else config
    if whole is None:
        return written
    lines = []
    for finding in engine.findings(_case(spec, whole)):
        verdict = "impossible" if finding.effect is None else "approximate"
        if finding.weight != "note":
            lines.append(Line(", ".join(finding.keys), verdict, finding.words))
    return replace(written, lines=(*written.lines, *lines))


def _case(spec: ModelSpec, config: Mapping[str, Any]) -> Case:
    return Case(spec, config, spec.main.trained_length or 8192)


def _gguf(values: Mapping[str, Any], spec: ModelSpec) -> Written:
    keys, tensors, lines = gguf_keys(spec, architecture_of(spec))
    return Written("gguf", keys=keys, tensors=tensors, lines=lines)


def _llama_cpp(values: Mapping[str, Any], spec: ModelSpec) -> Written:
    flags, lines = llama_cpp_flags(spec)
    return Written("llama.cpp", flags=flags, lines=lines)


TARGETS: Mapping[str, Callable[[Mapping[str, Any], ModelSpec], Written]] = {
    "hf4": _hf4,
    "hf5": _hf5,
    "vllm": _overrides("vllm", "--hf-overrides", "--max-model-len"),
    "sglang": _overrides("sglang", "--json-model-override-args", "--context-length"),
    "gguf": _gguf,
    "llama.cpp": _llama_cpp,
    "mlx": _mlx,
}
