"""What transformers makes of a configuration, for what `read` makes of it to be compared with."""

import copy
import importlib.util
import inspect
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

import posenc as pe
from posenc.models.spec import EncodingSpec, LayerSpec

_LOCAL = {"local": "sliding_attention", "global": "full_attention"}


class Published:
    """A configuration in transformers: the part that writes, or the part of another name."""

    def __init__(self, values: Mapping[str, Any], part: str = "text") -> None:
        import transformers

        kind = transformers.CONFIG_MAPPING[values["model_type"]]
        whole = kind.from_dict(copy.deepcopy(dict(values)))
        self.config = getattr(whole, f"{part}_config", whole)
        self.part = part
        home = type(self.config).__module__.replace("configuration_", "modeling_")
        if importlib.util.find_spec(home) is None:
            # A configuration without code of its own, which another type's runs.
            home = transformers.MODEL_MAPPING[type(self.config)].__module__
        self.home = home

    @property
    def code(self) -> ModuleType:
        return importlib.import_module(self.home)

    def rotation(self) -> torch.nn.Module | None:
        """The module with the rotary tables, or None where there is none."""
        kinds = [kind for kind in self._classes() if kind.__name__.endswith(_ROTARY)]
        return kinds[0](config=self.config) if kinds else None

    def frequencies(self, module: torch.nn.Module, kind: str, length: int) -> tuple[Tensor, float]:
        """Radians per token of each pair for inputs of this length, and the gain."""
        prefix = f"{kind}_" if hasattr(module, f"{kind}_inv_freq") else ""
        gain = float(getattr(module, f"{prefix}attention_scaling", 1.0))
        types = str(getattr(module, "rope_type", "default"))
        if "dynamic" in types or "longrope" in types:
            # What is used may be in no attribute: position 0 is not turned, and 1 by one step.
            places = torch.tensor([[0, 1, length - 1]])
            cos, sin = module.forward(torch.zeros(1, 1), places, *([kind] if prefix else []))
            step = torch.atan2(sin[0, 1].double(), cos[0, 1].double())
            return step[: step.shape[0] // 2], float(cos[0, 0, 0])
        return getattr(module, f"{prefix}inv_freq"), gain

    def kinds(self, count: int) -> Sequence[str]:
        """The kind of each layer, as the code of the model takes it."""
        source = inspect.getsource(self.code)
        listed = getattr(self.config, "attention_layers", None)
        if listed is not None:
            return [_LOCAL[kind] for kind in listed]
        listed = getattr(self.config, "layer_types", None)
        if listed is not None and "layer_types" in source:
            return listed
        slides = "sliding_window" in source and getattr(self.config, "sliding_window", None)
        return ["sliding_attention" if slides else "full_attention"] * count

    def attention(self, number: int) -> torch.nn.Module | None:
        """The attention of a layer without its weights, or None where no class is so made."""
        for kind in self._classes():
            names = list(inspect.signature(kind).parameters)
            if kind.__name__.endswith("Attention") and names == ["config", "layer_idx"]:
                with torch.device("meta"):
                    return kind(self.config, layer_idx=number)
        return None

    def _classes(self) -> list[type]:
        found = [
            kind
            for _, kind in inspect.getmembers(self.code, inspect.isclass)
            if kind.__module__ == self.home and issubclass(kind, torch.nn.Module)
        ]
        vision = [kind for kind in found if "Vision" in kind.__name__]
        text = [kind for kind in found if "Text" in kind.__name__]
        others = [kind for kind in found if kind not in vision and not _other(kind)]
        if self.part == "vision":
            return vision + others
        return text + [kind for kind in others if kind not in text]


_ROTARY = ("RotaryEmbedding", "RotaryPositionalEmbedding", "RopePositionEmbedding")


def _other(kind: type) -> bool:
    return any(word in kind.__name__ for word in ("Audio", "Linear", "Cross"))


def frequencies(spec: EncodingSpec, length: int = 1) -> tuple[Tensor, float]:
    """Radians per token of each pair for inputs of this length, and the gain on cos and sin."""
    settings = dict(spec.settings)
    dim = settings.get("rotary_dim") or settings["dim"]
    kept = {name: settings[name] for name in ("base", "scaling") if name in settings}
    rope = EncodingSpec("rotary", {"dim": dim, **kept}).build()
    assert isinstance(rope, pe.Rotary)
    gain = 1.0 if rope.scaling is None else rope.scaling.gain
    at = torch.tensor([length]) if rope.tags.length_dependent else None
    return rope.frequencies(at), gain


def kind_of(layer: LayerSpec | None) -> str | None:
    """The name that transformers has for a layer that attends so; None for one that does not."""
    if layer is None:
        return None
    if layer.window is not None:
        return "sliding_attention"
    return "full_attention" if layer.chunk is None else "chunked_attention"
