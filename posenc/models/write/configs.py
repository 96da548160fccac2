"""config.json in the words of transformers 4 and 5, and what is lost between them."""

from collections.abc import Mapping
from typing import Any

from posenc.models.spec import LayerSpec, PartSpec
from posenc.models.spellings import SPELLINGS, older, text
from posenc.models.values import plain_values
from posenc.models.write.rope import rope_parameters

# Read otherwise, though it stands among them: growing queries, gains by another name.
_BESIDE = ("llama_4_scaling_beta", "short_mscale", "long_mscale")
# Where models of two kinds of layer had the base of those that slide, before transformers 5.
_LOCAL = {
    "gemma3_text": ("rope_theta", "rope_local_base_freq"),
    "gemma3n_text": ("rope_theta", "rope_local_base_freq"),
    "modernbert": ("global_rope_theta", "local_rope_theta"),
}


def kinds(part: PartSpec) -> dict[str, LayerSpec]:
    """A layer of each kind that turns, by transformers' name of the kind."""
    layers: dict[str, LayerSpec] = {}
    for layer in part.layers:
        if layer is not None and layer.rotary is not None:
            name = "sliding_attention" if layer.window else "full_attention"
            layers.setdefault("chunked_attention" if layer.chunk else name, layer)
    return layers


def newer_config(values: Mapping[str, Any], part: PartSpec) -> dict[str, Any]:
    """All of it, with the rotation in rope_parameters, nested where kinds of layers differ."""
    config, inner = _without(values)
    ropes = _ropes(values, part)
    if ropes:
        alike = len({repr(rope) for rope in ropes.values()}) == 1
        inner["rope_parameters"] = next(iter(ropes.values())) if alike else ropes
    return config


def older_config(values: Mapping[str, Any], part: PartSpec) -> dict[str, Any] | None:
    """All of it, in rope_theta and rope_scaling; None where they cannot say it."""
    config, inner = _without(values)
    ropes = _ropes(values, part)
    if not ropes:
        return config
    if len({repr(rope) for rope in ropes.values()}) == 1:
        inner.update(older(next(iter(ropes.values()))))
        return config
    names = _LOCAL.get(str(inner.get("model_type")))
    local = ropes.get("sliding_attention")
    if local is None or set(local) != {"rope_type", "rope_theta"}:
        return None
    if names is None:
        # Of some model types the code scales those that see everything, and no others.
        inner.update(older(ropes["full_attention"]))
        return config if local["rope_theta"] == inner["rope_theta"] else None
    whole = older(ropes["full_attention"])
    inner[names[0]], inner[names[1]] = whole["rope_theta"], local["rope_theta"]
    inner["rope_scaling"] = whole["rope_scaling"]
    return config


def _ropes(values: Mapping[str, Any], part: PartSpec) -> dict[str, dict[str, Any]]:
    """The settings of each kind of layer, and beside them what they had besides the rotation."""
    outer = text(dict(values))
    whole = outer.get("rope_parameters") or outer.get("rope_scaling")
    # Of a model type whose code asks for none of them, it may be anything.
    whole = whole if isinstance(whole, Mapping) else {}
    ropes = {}
    for name, layer in kinds(part).items():
        if layer.rotary is not None:
            inner = whole.get(name)
            own = inner if isinstance(inner, Mapping) else whole
            others = {key: x for key, x in own.items() if key in _BESIDE}
            ropes[name] = rope_parameters(layer.rotary) | others
    return ropes


def _without(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    config = plain_values(values)
    inner = text(config)
    for name in SPELLINGS:
        inner.pop(name, None)
    return config, inner
