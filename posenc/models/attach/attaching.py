"""`attach` and `detach`: posenc under a transformers model, and the model as it was."""

from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any

import torch
from torch import nn

from posenc.encoding import Encoding
from posenc.encoding_lists import encodings_in
from posenc.encodings.rotary_values import RotaryValues
from posenc.errors import ConfigError, UnsupportedError
from posenc.lowering import Lowerable, check_fits, embeds_only
from posenc.models.attach.attachment import Attachment, Mark
from posenc.models.attach.body import Body
from posenc.models.attach.distributed import Distributed
from posenc.models.attach.entry import check_device, entry, unwrapped
from posenc.models.attach.given import ReadGiven, Unrepeated, Unreplaced, check_chosen
from posenc.models.attach.once import left_to_model, own_temperature
from posenc.models.attach.record import (
    Live,
    folder_of,
    load_parameters,
    record_of,
    recorded,
    restored,
)
from posenc.models.attach.registration import register
from posenc.models.attach.sight import Passes, Plan
from posenc.models.attach.table import Vectors
from posenc.models.attach.waves import Waves, turns_before_scores
from posenc.models.layers import Layers
from posenc.models.spec import LayerSpec

Choice = Lowerable | Callable[[int], Lowerable]
_Parts = tuple[Encoding, ...]


def attach(model: Any, encoding: Choice = None, *, raw_keys: bool = False) -> Attachment:
    """Put posenc under a transformers model: its rotations, its masks and its attention.

    encoding   None keeps what config.json says. Else an encoding, a list that composes some, or a
               function of the layer's number that gives one, in place of the model's own; T5's
               decoder goes on counting where its encoder ends. Masks, temperatures and learned
               sinks of the model stay, and act once where the encoding tells of them too
    raw_keys   keep keys in caches as they are projected, and turn them where they are attended to,
               as is always done for what cos and sin of each token cannot do; `watch` shows them

    Padding, packing, caches, `generate`, checkpointing and compiling go on as before. What is
    learned in the encoding becomes a part of the model, by the name "posenc", and its config tells
    of it: of a model that was saved so, attach(model) brings the encoding back. A model that has
    posenc already gets the new encoding in place of the old; after an error it has none.

    Raises UnsupportedError for a model that no route leads into, for an encoding that its code has
    no room for and for one that learns what a DistributedDataParallel around the model would not
    sum, and says why; UnknownNameError and ConfigError as `read` does, and ConfigError
    without an encoding where another model that has posenc shares the config.

    Example:

        model = AutoModelForCausalLM.from_pretrained(folder)
        print(posenc.attach(model))
    """
    distributed = Distributed(model)
    detach(model)
    model = unwrapped(model)
    check_device(model)
    family, body = entry(model)
    _check_ready(body)
    record = record_of(model) if encoding is None else None
    own = encoding is None and record is None
    if family.no_room and not own:
        raise UnsupportedError(
            f"attach({type(model).__name__}, {encoding!r}): no other encoding has room in its "
            f"code: {family.no_room}; leave the encoding out to keep its own"
        )
    attachment = Attachment(body.spec)
    try:
        if own:
            layers = family.encodings(body, attachment)
        else:
            chosen = restored(record or {}) if encoding is None else _chosen(body, encoding)
            layers = _checked(body, chosen)
            distributed.check(part for parts in layers for part in parts)
            _own_parameters(body, layers, attachment, saved=encoding is None)
        register()
        family.enter(body, attachment)
        if not own and body.table is not None:
            layers = _put_into_table(body, layers, attachment)
        _put_into_layers(body, layers, attachment, raw_keys)
    except BaseException:
        attachment.leave()
        raise
    vars(model)["_posenc"] = attachment
    attachment.at_leaving(partial(delattr, model, "_posenc"))
    distributed.list_buffers()
    return attachment


def detach(model: Any) -> None:
    """Give a model its own positions and attention back; one without posenc stays as it is."""
    for module in model.modules() if isinstance(model, nn.Module) else ():
        for attachment in (vars(module).get("_posenc"), Mark.of(module)):
            if attachment is not None:
                attachment.leave()


def _check_ready(body: Body) -> None:
    if any(hasattr(module, "posenc_plan") for module in body.attentions):
        raise UnsupportedError(
            f"attach({type(body.model).__name__}): its layers have posenc from a model that they "
            "were taken or copied from: detach that one first, and take or copy them then"
        )
    if body.rotary is not None and any(x.is_meta for x in body.rotary.module.buffers()):
        raise UnsupportedError(
            f"attach({type(body.model).__name__}): its rotation has no numbers on the meta device: "
            "attach to a model that has its memory, or made before it goes to meta"
        )


def _chosen(body: Body, encoding: Choice) -> list[_Parts]:
    """What the user gave for each layer."""
    numbers = range(len(body.layers))
    if isinstance(encoding, FunctionType | Layers):
        return [tuple(encodings_in(encoding(number), "attach")) for number in numbers]
    return [tuple(encodings_in(encoding, "attach")) for _ in numbers]


def _checked(body: Body, layers: list[_Parts]) -> list[_Parts]:
    if len(layers) != len(body.layers):
        raise ConfigError(
            f"config.posenc tells of {len(layers)} layers with attention, and the model has "
            f"{len(body.layers)}"
        )
    layers = [
        left_to_model(parts, layer, body.spec.model_type)
        for parts, layer in zip(layers, body.layers, strict=True)
    ]
    for parts, layer in zip(layers, body.layers, strict=True):
        for part in parts:
            check_fits(part, heads=layer.heads, head_dim=layer.head_dim)
            _check(part, layer, body)
        if len(turning := list(filter(_turns, parts))) > 1:
            raise UnsupportedError(
                f"attach: {len(turning)} rotations in one layer, {turning}: queries and keys can "
                "be rotated once, choose one"
            )
    return layers


def _check(part: Encoding, layer: LayerSpec, body: Body) -> None:
    if part.tags.needs_context:
        raise UnsupportedError(
            f"attach: {part!r} reads the input of its layer, which transformers does not hand to "
            "the attention function; posenc.Transformer does"
        )
    if type(part).embed is not Encoding.embed and not embeds_only(part):
        raise UnsupportedError(
            f"attach: {part!r} changes the embeddings and attention besides, for which no model of "
            "transformers has room; give one of each"
        )
    if embeds_only(part) and body.table is None:
        raise UnsupportedError(
            f"attach: {part!r} is added to embeddings, and {body.spec.model_type} adds no "
            "positions there; give an encoding that acts in attention"
        )
    if part.tags.causal_only and not layer.causal:
        raise UnsupportedError(
            f"attach: {part!r} is defined for causal attention only, and tokens of "
            f"{body.spec.model_type} see those behind them"
        )
    layout = getattr(part, "layout", None) if _turns(part) else None
    if layout is not None and body.layout not in (None, layout):
        raise UnsupportedError(
            f"attach: {part!r} pairs dimensions by layout {layout!r}, and the weights of "
            f"{body.spec.model_type} lie by {body.layout!r}: give layout={body.layout!r}"
        )


def _turns(part: Encoding) -> bool:
    """Whether it turns queries and keys, of which a call has one rotation."""
    return part.family == "rotary" and not isinstance(part, RotaryValues)


def _put_into_table(body: Body, layers: list[_Parts], attachment: Attachment) -> list[_Parts]:
    """Absolute vectors, or zeros, where the model looks its table up; what is left for layers."""
    absolute = {id(part): part for parts in layers for part in parts if embeds_only(part)}
    if len(absolute) > 1:
        raise UnsupportedError(
            f"attach: {len(absolute)} encodings of embeddings, {list(absolute.values())}: there "
            "is one table of positions"
        )
    assert body.table is not None
    assert isinstance(body.table.module, nn.Embedding)
    vectors = Vectors(next(iter(absolute.values()), None), body.table.module)
    attachment.replace(body.table, vectors)
    return [tuple(part for part in parts if not embeds_only(part)) for parts in layers]


def _put_into_layers(
    body: Body, layers: list[_Parts], attachment: Attachment, raw_keys: bool
) -> None:
    """Rotations into the model's cos and sin where its code can turn by them; else into attend."""
    turned: dict[str | None, Encoding | None] = dict.fromkeys(body.kinds)
    if not raw_keys:
        turned = {kind: _turned(body, layers, kind) for kind in turned}
    if body.rotary is not None:
        attachment.replace(body.rotary, Waves(turned, body.rotary.module))
    learned = tuple(
        x for x in turned.values() if x is not None and any(True for _ in x.parameters())
    )
    if learned:
        attachment.at_leaving(body.backbone.register_forward_pre_hook(Unrepeated(learned)).remove)
    passes, plans = Passes(), {}
    each = zip(body.attentions, layers, body.layers, body.kinds, strict=True)
    for module, parts, layer, kind in each:
        before = turned[kind] if turned[kind] in parts else None
        rest = tuple(part for part in parts if part is not before)
        if any(map(_turns, rest)) and (why := body.turns_itself):
            raise UnsupportedError(
                f"attach({type(body.model).__name__}, raw_keys={raw_keys}): its code {why}, so "
                f"that {rest} cannot turn queries and keys later; give what cos and sin of each "
                "token can do, and leave raw_keys away"
            )
        plan = plans.setdefault(tuple(map(id, rest)), Plan(len(plans), rest, passes))
        module.posenc_plan = plan
        attachment.at_leaving(partial(delattr, module, "posenc_plan"))
        # Whoever has but a part of the model, or what wraps it, finds the attachment by these.
        vars(module)["posenc_mark"] = Mark(attachment)
        attachment.at_leaving(partial(delattr, module, "posenc_mark"))
        attachment.routes.append(_route(before, rest, own_temperature(layer)))
    for module in body.called:
        hook = module.register_forward_pre_hook(ReadGiven(passes, module), with_kwargs=True)
        attachment.at_leaving(hook.remove)
    if any(plan.parts for plan in plans.values()):
        attachment.at_leaving(body.backbone.register_forward_pre_hook(check_chosen).remove)


def _turned(body: Body, layers: list[_Parts], kind: str | None) -> Encoding | None:
    """The rotation that all layers of this kind share and that cos and sin of tokens can do."""
    if body.rotary is None:
        return None
    of_kind = [
        ([part for part in parts if turns_before_scores(part, _first(layer))], parts, layer)
        for parts, layer, x in zip(layers, body.layers, body.kinds, strict=True)
        if x == kind
    ]
    first = next((turning[0] for turning, _, _ in of_kind if turning), None)
    for turning, parts, layer in of_kind:
        # The code of some layers does not turn, as of SmolLM3's every fourth.
        if parts and (turning != [first] or layer.rotary is None):
            return None
    return first


def _first(layer: LayerSpec) -> int:
    """The first dimension of a head that the model's code turns."""
    told = {} if layer.rotary is None else layer.rotary.settings
    return told.get("start", 0) % told.get("dim", 1)


def _own_parameters(body: Body, layers: list[_Parts], attachment: Attachment, saved: bool) -> None:
    """The model's config tells of the encodings, and what is learned becomes the model's."""
    model = body.model
    record = Live(recorded(layers, body.weights_of_table()), attachment)
    attachment.put(model.config, "posenc", record)
    distinct = {id(part): part for parts in layers for part in parts}
    learned = nn.ModuleList(x for x in distinct.values() if any(True for _ in x.parameters()))
    if not learned:
        return
    if saved:
        load_parameters(learned, folder_of(model.config))
    model.posenc = learned.to(_device(model))
    attachment.at_leaving(partial(delattr, model, "posenc"))
    hook = body.backbone.register_forward_pre_hook(Unreplaced(model.posenc, tuple(learned)))
    attachment.at_leaving(hook.remove)


def _device(model: Any) -> torch.device:
    """Where its layers compute: what accelerate keeps elsewhere is brought there."""
    hooks = (getattr(x, "_hf_hook", None) for x in model.modules())
    places = (getattr(hook, "execution_device", None) for hook in hooks)
    place = next((x for x in places if x is not None), model.device)
    return torch.device(place)


def _route(turned: Encoding | None, rest: _Parts, tempered: Encoding | None) -> str:
    said = []
    if tempered is not None:
        said.append(f"{tempered!r} in the model's code")
    if turned is not None:
        said.append(f"{turned!r} as cos and sin")
    if rest:
        said.append(f"{', '.join(map(repr, rest))} in attention")
    return "; ".join(said) or "attention"
