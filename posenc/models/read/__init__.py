"""`read`: what a checkpoint's configuration says of positions."""

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from posenc.errors import ConfigError, UnknownNameError
from posenc.models.keys import Keys, load, shown
from posenc.models.read.families import FAMILIES
from posenc.models.spec import ModelSpec

_LONGEST_NAME = 100


def read(source: str | PathLike[str] | Mapping[str, Any]) -> ModelSpec:
    """What a model does with positions, from its config.json, its folder or its values.

    Raises ConfigError for a file that is no configuration and for values that no model has,
    UnknownNameError for a model type that posenc does not know: nothing is guessed.

    Example: `read("SmolLM2-135M/config.json").layers[0].rotary.build()`.
    """
    if isinstance(source, Mapping):
        return _from_values(source, "a dict")
    if not isinstance(source, str | PathLike):
        raise ConfigError(f"read({shown(source)}): a path, a folder or an object is needed")
    path = Path(source)
    file = path / "config.json" if path.is_dir() else path
    return _from_values(load(file), str(file))


def _from_values(values: Mapping[str, Any], origin: str) -> ModelSpec:
    kind = values.get("model_type")
    if not isinstance(kind, str):
        raise ConfigError(f"{origin} has no model_type: nobody knows which code it is for")
    if len(kind) > _LONGEST_NAME:
        raise ConfigError(f"{origin} has a model_type of {len(kind)} letters, which no model has")
    if kind not in FAMILIES:
        raise UnknownNameError("model type", kind, FAMILIES)
    family = FAMILIES[kind]
    keys = Keys(values, family.silent, owner=kind)
    parts = family.read(keys)
    return ModelSpec(kind, parts, keys.unread(), origin)
