"""Encodings of an attached model, written into its config.json and read back."""

import contextlib
import gc
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from posenc.encoding import Encoding
from posenc.encodings.scaling import Scaling
from posenc.errors import ConfigError
from posenc.models.spec import EncodingSpec, ScalingSpec

Layers = list[tuple[Encoding, ...]]
# Under which an object is written, beside its settings.
_ENCODING, _SCALING, _LOST = "encoding_name", "scaling_name", "not_written"


class Live(dict[str, Any]):
    """The record in the config of a model that posenc is in; copies and files have a plain one."""

    def __init__(self, record: Mapping[str, Any], owner: object) -> None:
        super().__init__(record)
        self.owner = weakref.ref(owner)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


def record_of(model: Any) -> Any:
    """What the config of a model without posenc tells of it; None if nothing.

    Raises ConfigError where it is the config of a model that has posenc, too.
    """
    record = getattr(model.config, "posenc", None)
    if not isinstance(record, Live):
        return record
    # A model and what posenc did to it hold each other, so that nobody else may hold them any more.
    if record.owner() is not None:
        gc.collect()
    if record.owner() is not None:
        raise ConfigError(
            f"attach({type(model).__name__}): another model that has posenc shares its config, "
            "which tells of that model's encodings: give each model a config of its own, "
            "copy.deepcopy(config), or say which encoding this one gets"
        )
    return None


def folder_of(config: Any) -> Path:
    """Where the files are that a model was loaded from, those of the Hub in its usual cache.

    Raises ConfigError for a model that was not loaded.
    """
    name = config._name_or_path
    if not name:
        raise ConfigError(
            "config.posenc tells of learned encodings, and the model was loaded from no files "
            "that would hold them: give the encoding again"
        )
    if Path(name).is_dir():
        return Path(name)
    from huggingface_hub import try_to_load_from_cache

    revision = getattr(config, "_commit_hash", None)
    with contextlib.suppress(ValueError):
        for file in ("model.safetensors", "model.safetensors.index.json"):
            if isinstance(found := try_to_load_from_cache(name, file, revision=revision), str):
                return Path(found).parent
    return Path(name)


def recorded(layers: Layers, replaced: Sequence[str]) -> dict[str, Any]:
    """The encodings once each, for each layer the numbers of its own, and how the names end of the
    weights that give way to them, which no file has."""
    distinct = {id(part): part for parts in layers for part in parts}
    numbers = {key: number for number, key in enumerate(distinct)}
    return {
        "encodings": [_written(part) for part in distinct.values()],
        "layers": [[numbers[id(part)] for part in parts] for parts in layers],
        "replaced": list(replaced),
    }


def restored(record: Mapping[str, Any]) -> Layers:
    """What was recorded, with fresh parameters. Raises ConfigError for what is no record."""
    try:
        encodings = [_read(value) for value in record["encodings"]]
        return [tuple(encodings[number] for number in row) for row in record["layers"]]
    except (KeyError, TypeError, IndexError) as error:
        raise ConfigError(f"config.posenc is no record of posenc.attach: {error!r}") from error


def replaced_in(record: Any) -> tuple[str, ...]:
    """How the names end of weights that gave way to what was recorded; None is no record.

    Raises ConfigError for what is no record.
    """
    told = {} if record is None else record
    names = told.get("replaced", []) if isinstance(told, Mapping) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"config.posenc is no record of posenc.attach: {record!r}")
    return tuple(f".{name}" for name in names)


def load_parameters(learned: nn.ModuleList, folder: Path) -> None:
    """Their trained values, from the safetensors files that the model was loaded from.

    Raises ConfigError where they are not there.
    """
    from safetensors import safe_open

    wanted = set(learned.state_dict())
    values = {}
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, "pt") as tensors:
            for key in tensors.keys():  # noqa: SIM118 - no mapping
                name = key.removeprefix("posenc.")
                if key.startswith("posenc.") and name in wanted:
                    values[name] = tensors.get_tensor(key)
    if missing := sorted(wanted - set(values)):
        raise ConfigError(
            f"{folder}: config.json tells of learned encodings, and their parameters "
            f"{', '.join(f'posenc.{name}' for name in missing)} are in no safetensors file there: "
            "load the model from the folder that holds its files, or give the encoding again"
        )
    learned.load_state_dict(values)


def _written(value: Any) -> Any:
    """A setting as JSON has it."""
    if isinstance(value, Encoding):
        return {_ENCODING: value.name, **{k: _written(x) for k, x in value.settings().items()}}
    if isinstance(value, Scaling):
        # A frozen value, whose fields are its settings.
        return {_SCALING: type(value).__name__, **{k: _written(x) for k, x in vars(value).items()}}
    if isinstance(value, tuple | list):
        return [_written(x) for x in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    # Such as a function, which no file can hold.
    return {_LOST: repr(value)}


def _read(value: Any) -> Any:
    """A setting from JSON."""
    if isinstance(value, list):
        return tuple(_read(x) for x in value)
    if not isinstance(value, Mapping):
        return value
    settings = {key: _read(x) for key, x in value.items() if key not in (_ENCODING, _SCALING)}
    if _LOST in value:
        raise ConfigError(
            f"config.posenc tells of {value[_LOST]}, which config.json cannot hold: give the "
            "encoding to posenc.attach again"
        )
    if _SCALING in value:
        return ScalingSpec(value[_SCALING], settings)
    return EncodingSpec(value[_ENCODING], settings).build()
