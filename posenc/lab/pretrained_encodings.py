"""Encodings by name for a model that is there: what they share with its own is taken from it."""

from typing import Any

from posenc.catalogue import find, make
from posenc.encoding import Encoding
from posenc.encodings import Rotary, Sinks
from posenc.errors import SettingError, UnsupportedError
from posenc.lab.encodings import refuse_sizes, scalings
from posenc.lab.spelling import spelled, split
from posenc.models.spec import LayerSpec, ModelSpec

# The longest input to fit to, of a model that does not say how long its own were.
UNSAID = 2048


def encodings(text: str, spec: ModelSpec) -> list[list[Encoding]]:
    """What a text such as window(width=252) + sinks(count=4) + rotary puts into each layer.

    Rotations have the base, size and layout of the model's own, unless settings say otherwise, and
    a layer that does not turn stays without. sinks(count=4, window=252) is StreamingLLM with the
    model's rotation. Layers that are alike share theirs, for `attach`.

    Raises PosencError for what there is not and what the model has no room for.
    """
    parts = [spelled(part, scalings()) for part in split(text, "+")]
    if not parts:
        raise SettingError("an encoding without a name: give one, as in rotary, or own")
    known: dict[str, list[Encoding]] = {}
    layers = []
    for layer in spec.layers:
        if layer is not None:
            key = repr((layer.rotary, layer.heads, layer.head_dim))
            if key not in known:
                found = [_made(name, settings, layer, spec) for name, settings in parts]
                known[key] = [part for part in found if part is not None]
            layers.append(known[key])
    return layers


def _made(
    name: str, settings: dict[str, Any], layer: LayerSpec, spec: ModelSpec
) -> Encoding | None:
    own = dict(layer.rotary.settings) if layer.rotary is not None else {}
    kind = find(name)
    turns = kind.family == "rotary" or (kind is Sinks and "window" in settings)
    if turns and layer.rotary is None:
        return None
    if kind is Sinks and turns:
        return Sinks(**settings, rotary=Rotary(**own))
    sizes: dict[str, Any] = {
        "model_dim": layer.heads * layer.head_dim,
        "heads": layer.heads,
        "head_dim": layer.head_dim,
        "max_length": spec.main.trained_length or UNSAID,
        "causal": layer.causal,
    }
    refuse_sizes(name, settings, sizes)
    shared = own if turns else {}
    left = {*shared} - {*make(name, **sizes).settings()}
    if left:
        raise UnsupportedError(
            f"{name}: the model's rotation has {', '.join(sorted(left))}, and {name} has no such "
            "setting"
        )
    made = make(name, **sizes, **shared | settings)
    if made.tags.length_dependent:
        raise UnsupportedError(
            f"{made!r} depends on how long the whole input is, and inputs are read in parts here: "
            "`posenc extend` measures it"
        )
    return made
