"""What transformers makes of a configuration, for what `read` makes of it to be compared with."""

import copy
import importlib
import inspect
from collections.abc import Mapping
from typing import Any

import torch

import posenc as pe
from posenc.models.spec import EncodingSpec


def rotary_module(values: Mapping[str, Any]) -> torch.nn.Module | None:
    """The module with the rotary tables of a configuration, or None where there is none."""
    import transformers

    kind = transformers.CONFIG_MAPPING[values["model_type"]]
    config = kind.from_dict(copy.deepcopy(dict(values)))
    config = getattr(config, "text_config", config)
    home = type(config).__module__.replace("configuration_", "modeling_")
    module = importlib.import_module(home)
    kinds = [
        kind
        for name, kind in inspect.getmembers(module, inspect.isclass)
        if name.endswith("RotaryEmbedding") and "Vision" not in name and kind.__module__ == home
    ]
    text = [kind for kind in kinds if "Text" in kind.__name__]
    return (text or kinds)[0](config=config) if kinds else None


def frequencies(spec: EncodingSpec) -> torch.Tensor:
    """Radians per token of each pair, whichever dimensions of a head turn."""
    settings = dict(spec.settings)
    dim = settings.get("rotary_dim") or settings["dim"]
    kept = {name: settings[name] for name in ("base", "scaling") if name in settings}
    rope = EncodingSpec("rotary", {"dim": dim, **kept}).build()
    assert isinstance(rope, pe.Rotary)
    length = torch.tensor(1) if rope.tags.length_dependent else None
    return rope.frequencies(length)
