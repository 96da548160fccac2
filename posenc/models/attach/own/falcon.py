"""Falcon: rotary or ALiBi, and one key head, a few, or one per head."""

from functools import partial
from typing import Any

from torch import Tensor

from posenc.models.attach.attachment import Attachment
from posenc.models.attach.attention import posenc_attention
from posenc.models.attach.body import Body, Place
from posenc.models.attach.family import Family
from posenc.models.attach.own.parts import (
    body_of,
    choose_posenc,
    inside,
    of_configuration,
)
from posenc.models.spec import ModelSpec


def _body(model: Any, spec: ModelSpec) -> Body:
    backbone = inside(model, "FalconModel")
    # The rotary module is there with ALiBi, too, but nobody reads what it gives.
    rotary = None if backbone.config.alibi else Place(backbone, "rotary_emb")
    attentions = [block.self_attention for block in backbone.h]
    return body_of(model, spec, spec.layers, attentions, rotary)


def _enter(body: Body, attachment: Attachment) -> None:
    choose_posenc(body, attachment)
    # Else its code would add a bias to the mask, pair by pair.
    attachment.put(inside(body.model, "FalconModel"), "use_alibi", False)
    for attention in body.attentions:
        attachment.put(attention, "forward", partial(_forward, attention))


def _forward(
    attention: Any,
    hidden_states: Tensor,
    alibi: None,
    attention_mask: Any,
    position_ids: Tensor | None = None,
    layer_past: Any = None,
    use_cache: bool = False,
    output_attentions: bool = False,
    position_embeddings: tuple[Tensor, Tensor] | None = None,
    **told: Any,
) -> tuple[Tensor, None]:
    """In place of FalconAttention.forward; caches hold key heads as they are, not repeated."""
    from transformers.models.falcon.modeling_falcon import apply_rotary_pos_emb

    # Of each key head: its queries, its key, its value.
    fused = attention.query_key_value(hidden_states)
    fused = fused.unflatten(-1, (attention.num_kv_heads, -1, attention.head_dim))
    q = fused[..., :-2, :].flatten(2, 3).transpose(1, 2)
    k, v = (fused[..., i, :].transpose(1, 2) for i in (-2, -1))
    # As in Falcon's code: weights are dropped beside ALiBi, and never beside rotary.
    dropout = 0.0
    if attention.config.alibi:
        dropout = attention.attention_dropout.p if attention.training else 0.0
    elif position_embeddings is not None:
        q, k = apply_rotary_pos_emb(q, k, *position_embeddings)
    if layer_past is not None:
        k, v = layer_past.update(k, v, attention.layer_idx)
    out, _ = posenc_attention(attention, q, k, v, attention_mask, dropout=dropout)
    return attention.dense(out.flatten(2)), None


FALCON = Family(_body, of_configuration, _enter)
