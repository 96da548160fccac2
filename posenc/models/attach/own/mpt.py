"""MPT: ALiBi, its slopes as large as its configuration says."""

from typing import Any

from torch import Tensor

from posenc.errors import UnsupportedError
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
from posenc.models.cache_names import cache_of
from posenc.models.spec import ModelSpec


def _body(model: Any, spec: ModelSpec) -> Body:
    if spec.main.embeddings:
        raise UnsupportedError(
            f"attach: {type(model).__name__} with attn_config.alibi=False has a table of "
            "positions, which transformers' code does not read"
        )
    attentions = [block.attn for block in inside(model, "MptModel").blocks]
    return body_of(model, spec, spec.layers, attentions)


def _enter(body: Body, attachment: Attachment) -> None:
    attend_without_bias(body, attachment, "MptModel", "build_mpt_alibi_tensor", _forward)


def _forward(
    attention: Any,
    hidden_states: Tensor,
    position_bias: None,
    *,
    attention_mask: Any = None,
    **told: Any,
) -> tuple[Tensor, None]:
    """In place of MptAttention.forward."""
    fused = attention.Wqkv(hidden_states)
    if attention.clip_qkv:
        fused = fused.clamp(-attention.clip_qkv, attention.clip_qkv)
    q, k, v = fused.unflatten(-1, (3, attention.n_heads, -1)).permute(2, 0, 3, 1, 4)
    if (cache := cache_of(told)) is not None:
        k, v = cache.update(k, v, attention.layer_idx)
    if isinstance(attention_mask, Tensor):
        # MPT's code makes booleans of every mask, and hides where they are true.
        attention_mask = ~attention_mask
    out, _ = posenc_attention(
        attention,
        q,
        k,
        v,
        attention_mask,
        scaling=attention.softmax_scale,
        dropout=attention.attn_dropout_p if attention.training else 0.0,
    )
    return attention.out_proj(out.flatten(2)), None


MPT = Family(_body, of_configuration, _enter)
