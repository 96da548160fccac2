"""What families with attention code of their own share, to find their parts and replace them."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch import nn

from posenc.encoding import Encoding
from posenc.models.attach.attachment import Attachment
from posenc.models.attach.body import Body, Place
from posenc.models.attach.registration import NAME
from posenc.models.spec import LayerSpec, ModelSpec


def body_of(
    model: Any,
    spec: ModelSpec,
    layers: Sequence[LayerSpec | None],
    attentions: Sequence[nn.Module],
    rotary: Place | None = None,
    stacks: Sequence[nn.Module] = (),
) -> Body:
    """A body in which every layer attends, and the attentions stand in the layers' order."""
    found = tuple(layer for layer in layers if layer is not None)
    assert len(found) == len(attentions), (len(found), len(attentions))
    kinds = (None,) * len(found)
    return Body(model, spec, found, tuple(attentions), kinds, rotary, None, tuple(stacks))


def inside(model: nn.Module, name: str) -> Any:
    """The module of this class, or of a class made of it, in a model that has one."""
    return next(x for x in model.modules() if any(kind.__name__ == name for kind in type(x).mro()))


def no_bias(owner: nn.Module, *told: object, **named: object) -> None:
    """In place of a method that makes a bias, or distances, of every pair."""


def attend_without_bias(
    body: Body, attachment: Attachment, owner: str, maker: str, forward: Callable[..., Any]
) -> None:
    """Each attention goes by `forward(attention, ...)`, and the owner's method makes no bias."""
    choose_posenc(body, attachment)
    backbone = inside(body.model, owner)
    attachment.put(backbone, maker, partial(no_bias, backbone))
    for attention in body.attentions:
        attachment.put(attention, "forward", partial(forward, attention))


def of_configuration(body: Body, attachment: Attachment) -> list[tuple[Encoding, ...]]:
    """What the configuration says of each layer; layers of which it says the same share it."""
    built: dict[str, tuple[Encoding, ...]] = {}
    for layer in body.layers:
        built.setdefault(repr(layer.encodings), tuple(x.build() for x in layer.encodings))
    return [built[repr(layer.encodings)] for layer in body.layers]


def choose_posenc(body: Body, attachment: Attachment) -> None:
    """Make transformers' mask functions give a Sight, though the model's code asks no interface."""
    configs = {id(x.config): x.config for x in body.model.modules() if hasattr(x, _SET_BY)}
    for config in configs.values():
        attachment.put(config, "_attn_implementation_internal", NAME)


# Models of transformers have it, their layers do not.
_SET_BY = "set_attn_implementation"
