"""BLOOM: ALiBi."""

from typing import Any

from torch import Tensor

from posenc.models.attach.attachment import Attachment
from posenc.models.attach.attention import posenc_attention
from posenc.models.attach.body import Body
from posenc.models.attach.family import Family
from posenc.models.attach.own.parts import (
    attend_without_bias,
    body_of,
    inside,
    of_configuration,
)
from posenc.models.spec import ModelSpec


def _body(model: Any, spec: ModelSpec) -> Body:
    attentions = [block.self_attention for block in inside(model, "BloomModel").h]
    return body_of(model, spec, spec.layers, attentions)


def _enter(body: Body, attachment: Attachment) -> None:
    attend_without_bias(body, attachment, "BloomModel", "build_alibi_tensor", _forward)


def _forward(
    attention: Any,
    hidden_states: Tensor,
    residual: Tensor,
    alibi: Tensor | None,
    attention_mask: Any,
    layer_past: Any = None,
    use_cache: bool = False,
    output_attentions: bool = False,
    **told: Any,
) -> tuple[Tensor, None]:
    """In place of BloomAttention.forward."""
    from transformers.models.bloom.modeling_bloom import dropout_add

    q, k, v = attention._reshape(attention.query_key_value(hidden_states))
    if layer_past is not None:
        k, v = layer_past.update(k, v, attention.layer_idx)
    dropout = attention.attention_dropout.p if attention.training else 0.0
    out, _ = posenc_attention(attention, q, k, v, attention_mask, dropout=dropout)
    made = attention.dense(out.flatten(2))
    return dropout_add(made, residual, attention.hidden_dropout, attention.training), None


BLOOM = Family(_body, of_configuration, _enter)
