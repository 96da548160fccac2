"""The config.json of a method, for engines that read one."""

import json
from collections.abc import Mapping
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

from posenc.atomic_files import write_json
from posenc.encoding import Encoding
from posenc.encodings import Rotary
from posenc.encodings.scaling import DynamicNTK, Scaling
from posenc.errors import UnsupportedError
from posenc.extend.methods import Reach, encodings
from posenc.models.read import read
from posenc.models.spec import EncodingSpec, LayerSpec, ScalingSpec
from posenc.models.spellings import text
from posenc.models.write.configs import newer_config
from posenc.words import Saying

CONFIG = "config.json"


def write_config(out: Path, values: Mapping[str, Any], method: str, reach: Reach) -> Saying:
    """Write the method's config.json into `out`; returns the line that says so, or why not."""
    try:
        config = config_of(values, method, reach)
    except UnsupportedError as error:
        return Saying("as_it_is", {"text": error})
    write_json(out / CONFIG, config)
    return Saying("config", {"method": method, "path": out / CONFIG})


def config_of(values: Mapping[str, Any], method: str, reach: Reach) -> dict[str, Any]:
    """A model's whole config.json with a method in it, in the words of transformers 5.

    It states the target as the longest input, but for dynamic, which goes on from the trained
    length. Raises UnsupportedError for a method that no config.json can say: zones and masks are
    code, which `posenc.attach` puts under a model.
    """
    spec = read(values)
    replaced = iter(encodings(spec, method, reach))
    layers = tuple(x and _with(x, next(replaced), method) for x in spec.layers)
    config = newer_config(values, replace(spec.main, layers=layers))
    name = spec.main.sources["trained_length"].rpartition(".")[2]
    scalings = [x.rotary.settings.get("scaling") for x in layers if x and x.rotary]
    if not any(x is not None and x.name == DynamicNTK.__name__ for x in scalings):
        text(config)[name] = reach.target
    # Whatever stands in GGUF's configuration, JSON can hold.
    return json.loads(json.dumps(config, default=str))


def _with(layer: LayerSpec, parts: list[Encoding], method: str) -> LayerSpec:
    """The layer with another rotation, as plain data."""
    rest = tuple(x for x in layer.encodings if x is not layer.rotary)
    return replace(layer, encodings=(*(_spec(part, method) for part in parts), *rest))


def _spec(part: Encoding, method: str) -> EncodingSpec:
    if not isinstance(part, Rotary):
        raise UnsupportedError(
            f"extend --write {method}: no config.json can say {part!r}; put it under the model "
            "with posenc.attach(model, encoding)"
        )
    settings = {name: x for name, x in part.settings().items() if x is not None}
    if part.scaling is not None:
        settings["scaling"] = ScalingSpec(type(part.scaling).__name__, _chosen(part.scaling))
    return EncodingSpec("rotary", settings)


def _chosen(scaling: Scaling) -> dict[str, Any]:
    """The settings that are not those of every file."""
    known = signature(type(scaling)).parameters.values()
    values = {x.name: (getattr(scaling, x.name), x.default) for x in known}
    return {name: value for name, (value, default) in values.items() if value != default}
