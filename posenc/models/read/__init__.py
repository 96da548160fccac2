"""`read`: what a checkpoint's configuration says of positions."""

import re
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

from posenc.errors import ConfigError, UnknownNameError, shown
from posenc.models.keys import Keys, load
from posenc.models.read.families import FAMILIES
from posenc.models.read.gguf.header import is_gguf
from posenc.models.read.gguf.reader import read_gguf
from posenc.models.read.refused import REFUSED
from posenc.models.spec import ModelSpec
from posenc.models.values import plain_values

_LONGEST_NAME = 100
_LATER_PART = re.compile(r"-(?!00001)\d{5}-of-\d{5}\.gguf$")


class Configuration(Protocol):
    """As transformers has it: `model.config`."""

    def to_dict(self) -> dict[str, Any]: ...


def read(source: str | PathLike[str] | Mapping[str, Any] | Configuration) -> ModelSpec:
    """What a model does with positions: of a config.json, its folder, its values, or a GGUF file.

    transformers' own `model.config` serves as well as the values do.

    Of a folder without config.json its GGUF file is read. Of a GGUF file the spec says what
    llama.cpp does, whose layout of pairs may not be that of the checkpoint it was made of.

    Raises ConfigError for a file that is no configuration and for values that no model has,
    or whose positions a specification cannot say, and UnknownNameError for a model type that
    posenc does not know: nothing is guessed.

    Example: `read("SmolLM2-135M/config.json").layers[0].rotary.build()`.
    """
    return read_with_values(source)[0]


def read_with_values(
    source: str | PathLike[str] | Mapping[str, Any] | Configuration,
) -> tuple[ModelSpec, dict[str, Any] | None]:
    """What `read` makes of a source, and a copy of the values that it was made of.

    The values are None for a GGUF file, which has none of config.json's. Raises as `read` does.
    """
    if isinstance(source, Mapping):
        values, origin = plain_values(source), "a dict"
    elif isinstance(source, str | PathLike):
        file = _configuration(source)
        if is_gguf(file):
            return read_gguf(file), None
        values, origin = load(file), str(file)
    elif hasattr(source, "to_dict") and not isinstance(source, type):
        values, origin = plain_values(source.to_dict()), type(source).__name__
    else:
        raise ConfigError(f"read({shown(source)}): a path, a folder or an object is needed")
    return _from_values(values, origin), values


def _configuration(source: str | PathLike[str]) -> Path:
    """The file that is read: this one, or the one of a folder that says what its model does."""
    path = Path(source)
    return _inside(path) if path.is_dir() else path


def _inside(folder: Path) -> Path:
    """The file of a folder that says what its model does."""
    config = folder / "config.json"
    if config.exists():
        return config
    # The first of a model in several parts says what all of them are.
    files = [file for file in sorted(folder.glob("*.gguf")) if not _LATER_PART.search(file.name)]
    if len(files) > 1:
        raise ConfigError(
            f"{folder} holds no config.json and {len(files)} GGUF files, such as {files[0].name}: "
            "give one of them"
        )
    return files[0] if files else config


def _from_values(values: Mapping[str, Any], origin: str) -> ModelSpec:
    kind = values.get("model_type")
    if not isinstance(kind, str):
        raise ConfigError(f"{origin} has no model_type: nobody knows which code it is for")
    if len(kind) > _LONGEST_NAME:
        raise ConfigError(f"{origin} has a model_type of {len(kind)} letters, which no model has")
    if kind in REFUSED:
        raise ConfigError(f"{origin} is of model type {kind!r}, which is not read: {REFUSED[kind]}")
    if kind not in FAMILIES:
        raise UnknownNameError("model type", kind, FAMILIES)
    family = FAMILIES[kind]
    keys = Keys(values, family.silent, owner=kind)
    parts = family.read(keys)
    if not parts:
        raise ConfigError(
            f"{origin} has no part of a {kind} that posenc reads: give the whole file"
        )
    return ModelSpec(kind, parts, keys.unread(), origin)
