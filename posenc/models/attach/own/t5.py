"""T5, mT5 and UMT5: a table of buckets in the first layer of a stack, or in every layer.

Their code hands scores to the attention function of transformers, and beside them a bias
(1, h, tq, tk) that it made densely. Here none is made: the attention function has the table.
"""

from functools import partial
from typing import Any

import torch
from torch import nn

from posenc.encoding import Encoding
from posenc.errors import UnsupportedError
from posenc.models.attach.attachment import Attachment
from posenc.models.attach.body import Body
from posenc.models.attach.family import Family
from posenc.models.attach.own.parts import body_of, choose_posenc, no_bias
from posenc.models.spec import LayerSpec, ModelSpec


class Tie:
    """A forward pre-hook: an encoding's weight is that of a module, also after it got another."""

    def __init__(self, encoding: Encoding, table: nn.Embedding) -> None:
        self.encoding, self.table = encoding, table
        # Whether gradients flow into a table that was in shares when its stack began.
        self.in_shares = False

    def begin(self, stack: nn.Module, args: tuple[Any, ...]) -> None:
        """The pre-hook of the stack, before fully_shard gathers what is in its blocks."""
        in_shares = callable(getattr(self.table.weight, "full_tensor", None))
        self.in_shares = in_shares and torch.is_grad_enabled()

    def __call__(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        weight = self.table.weight
        if self.in_shares and not torch.is_grad_enabled():
            raise UnsupportedError(
                "posenc under T5, fully_shard and re-entrant gradient checkpointing: gradients of "
                "later layers do not reach the table of the first: "
                'gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": '
                "False})"
            )
        if self.in_shares:
            # What fully_shard gathered is freed behind this block, and later ones read it too.
            weight = weight.clone()
        if self.encoding.weight is not weight:
            # Past the setter, which refuses the plain tensor that a weight is in functional_call.
            vars(self.encoding)["_parameters"]["weight"] = weight


def _stacks(model: nn.Module) -> list[Any]:
    return [module for module in model.modules() if type(module).__name__.endswith("Stack")]


def _body(model: Any, spec: ModelSpec) -> Body:
    """Layers of the encoder, where there is one, then those of the decoder."""
    layers: list[LayerSpec | None] = []
    attentions: list[Any] = []
    stacks = _stacks(model)
    for stack in stacks:
        layers += spec.parts["decoder" if stack.is_decoder else "encoder"].layers
        attentions += [block.layer[0].SelfAttention for block in stack.block]
    return body_of(model, spec, layers, attentions, stacks=stacks)


def _encodings(body: Body, attachment: Attachment) -> list[tuple[Encoding, ...]]:
    """The buckets of each layer, of its own table or of that of a layer before it."""
    layers: list[tuple[Encoding, ...]] = []
    attentions: tuple[Any, ...] = body.attentions
    for attention, layer in zip(attentions, body.layers, strict=True):
        if not attention.has_relative_attention_bias:
            layers.append(layers[-1])
            continue
        # Its own table is never read.
        with torch.device("meta"):
            (encoding,) = (x.build() for x in layer.encodings)
        tie = Tie(encoding, attention.relative_attention_bias)
        tie(attention, ())
        attachment.at_leaving(attention.register_forward_pre_hook(tie).remove)
        (stack,) = (x for x in _stacks(body.model) if attention in x.modules())
        attachment.at_leaving(stack.register_forward_pre_hook(tie.begin).remove)
        layers.append((encoding,))
    return layers


def _enter(body: Body, attachment: Attachment) -> None:
    choose_posenc(body, attachment)
    for stack in _stacks(body.model):
        for block in stack.block:
            attentions = [block.layer[0].SelfAttention]
            if stack.is_decoder:
                attentions.append(block.layer[1].EncDecAttention)
            for attention in attentions:
                # Where it has none, T5's code makes zeros for every pair.
                attachment.put(attention, "has_relative_attention_bias", True)
                attachment.put(attention, "compute_bias", partial(no_bias, attention))


T5 = Family(_body, _encodings, _enter)
