"""The way into models that ask transformers' AttentionInterface."""

from functools import partial
from typing import Any

from posenc.encoding import Encoding
from posenc.models.attach.attachment import Attachment
from posenc.models.attach.body import Body
from posenc.models.attach.family import Family
from posenc.models.attach.registration import NAME
from posenc.models.spec import EncodingSpec


def _rotations(body: Body, attachment: Attachment) -> list[tuple[Encoding, ...]]:
    """The rotation of each layer, as its configuration has it; all else is in the model's code."""
    built: list[tuple[EncodingSpec, Encoding]] = []
    layers: list[tuple[Encoding, ...]] = []
    for layer in body.layers:
        if layer.rotary is None:
            layers.append(())
            continue
        same = next((encoding for spec, encoding in built if spec == layer.rotary), None)
        if same is None:
            same = layer.rotary.build()
            built.append((layer.rotary, same))
        layers.append((same,))
    return layers


def _choose(body: Body, attachment: Attachment) -> None:
    """Make transformers' code call posenc, by the name that `register` gave it."""
    before = implementations(body.model.config)
    body.model.set_attn_implementation(NAME)
    attachment.at_leaving(partial(body.model.set_attn_implementation, before))


def implementations(config: Any) -> dict[str, str]:
    """The attention of each part of a model, the whole by no name."""
    named = {name: getattr(config, name, None) for name in config.sub_configs}
    parts = {"": config, **{name: part for name, part in named.items() if part is not None}}
    return {name: part._attn_implementation for name, part in parts.items()}


BY_INTERFACE = Family(Body.of, _rotations, _choose)
