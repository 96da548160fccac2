"""XLNet, one stream: Transformer-XL's sinusoids of the distance, and segments.

Letters: b batch, h heads, tq, tk queries and keys, d head dimension, c model dimension, n rows,
s segments. XLNet has tokens before the batch.
"""

from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from posenc.encodings._rotary import geometric
from posenc.errors import UnsupportedError
from posenc.models.attach.attachment import Attachment
from posenc.models.attach.body import Body
from posenc.models.attach.family import Family
from posenc.models.attach.mask import posenc_mask
from posenc.models.attach.own.layer_terms import attend_by
from posenc.models.attach.own.parts import (
    body_of,
    choose_posenc,
    inside,
    of_configuration,
)
from posenc.models.attach.sight import Sight
from posenc.models.spec import ModelSpec
from posenc.terms import GatherTable

_BASE = 10_000.0
_OTHER_WAYS = ("mems", "perm_mask", "target_mapping", "output_attentions")


@dataclass(eq=False)
class Told:
    """What the forward pass that runs was told: who sees whom, and segments (b, t, s), one-hot."""

    sight: Sight | None = None
    segments: Tensor | None = None


def _body(model: Any, spec: ModelSpec) -> Body:
    backbone = inside(model, "XLNetModel")
    if backbone.bi_data or backbone.same_length:
        raise UnsupportedError(
            f"attach: {type(model).__name__} with bi_data={backbone.bi_data}, "
            f"same_length={backbone.same_length}: of XLNet posenc takes the plain use alone"
        )
    attentions = [layer.rel_attn for layer in backbone.layer]
    return body_of(model, spec, spec.layers, attentions)


def _enter(body: Body, attachment: Attachment) -> None:
    choose_posenc(body, attachment)
    backbone, told = inside(body.model, "XLNetModel"), Told()
    reading = Reading(told, causal=backbone.attn_type == "uni")
    hook = backbone.register_forward_pre_hook(reading, with_kwargs=True)
    attachment.at_leaving(hook.remove)
    # By this its code makes no causal mask, and asks for the waves of both sides.
    attachment.put(backbone, "attn_type", "bi")
    attachment.put(backbone, "relative_positional_encoding", partial(_waves, backbone))
    for number, attention in enumerate(body.attentions):
        attachment.put(attention, "rel_attn_core", partial(_core, attention, number, told))


class Reading:
    """A forward pre-hook of XLNetModel: what it would spread over all pairs is kept per token."""

    def __init__(self, told: Told, causal: bool) -> None:
        self.told, self.causal = told, causal

    def __call__(
        self, backbone: Any, args: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[()], dict[str, Any]]:
        from transformers.masking_utils import bidirectional_mask_function

        named = {**dict(zip(signature(backbone.forward).parameters, args, strict=False)), **named}
        if named.get("output_attentions") is None:
            named["output_attentions"] = backbone.config.output_attentions
        asked = {name: named.get(name) for name in _OTHER_WAYS}
        if other := [name for name, x in asked.items() if x is not None and x is not False]:
            raise UnsupportedError(
                f"attach: XLNet with {', '.join(other)} goes another way than posenc's, which "
                "takes one stream without memories and keeps no weights; detach(model) first"
            )
        x = named.get("input_ids")
        x = named.get("inputs_embeds") if x is None else x
        if x is None:
            return (), named
        mask, padding = named.pop("attention_mask", None), named.pop("input_mask", None)
        if padding is not None:
            mask = 1 - padding
        both: dict[str, Any] = {
            "mask_function": bidirectional_mask_function,
            "allow_is_bidirectional_skip": True,
        }
        self.told.sight = posenc_mask(
            *x.shape[:1],
            *x.shape[1:2] * 2,
            attention_mask=None if mask is None else mask.bool(),
            device=x.device,
            **({} if self.causal else both),
        )
        self.told.segments = None
        if (segments := named.pop("token_type_ids", None)) is not None:
            numbered = torch.unique(segments, return_inverse=True)[1]
            self.told.segments = F.one_hot(numbered)
        return (), named


def _waves(
    backbone: Any,
    qlen: int,
    klen: int,
    bsz: int | None = None,
    device: torch.device | None = None,
) -> Tensor:
    """In place of XLNetModel.relative_positional_encoding: (n, 1, c), of angles in float64.

    Rows are of the distances from klen behind to qlen - 1 ahead. They are those of all rows of a
    batch, so that dropout in training falls on a number of each distance, not of each text.
    """
    back = torch.arange(klen, -qlen, -1, dtype=torch.float64, device=device)
    if backbone.clamp_len > 0:
        back = back.clamp(-backbone.clamp_len, backbone.clamp_len)
    angle = back[:, None] * geometric(_BASE, backbone.d_model, back.device)
    return torch.cat((angle.sin(), angle.cos()), dim=-1)[:, None].to(backbone.dtype)


def _core(
    attention: Any,
    number: int,
    told: Told,
    q_head: Tensor,
    k_head_h: Tensor,
    v_head_h: Tensor,
    k_head_r: Tensor,
    seg_mat: None = None,
    attn_mask: None = None,
    output_attentions: bool = False,
) -> Tensor:
    """In place of XLNetRelativeAttention.rel_attn_core: (tq, b, h, d) of q, and the like.

        score[i, j] = scale * ((q[i] + w) . k[j] + (q[i] + r) . R[i - j] + same[i] * [s_i = s_j])
        same[i] = (q[i] + s) . (S[0] - S[1])

    What a query adds for all keys of other segments, (q[i] + s) . S[1], no softmax sees.
    """
    assert told.sight is not None
    q, k, v = (x.permute(1, 2, 0, 3) for x in (q_head, k_head_h, v_head_h))
    content_bias, position_bias = attention.r_w_bias, attention.r_r_bias
    rows = k_head_r[:, 0].transpose(0, 1)
    if told.segments is not None:
        # One more dimension for each segment, in which only tokens of it meet.
        segments = told.segments[:, None].to(q.dtype)
        apart = attention.seg_embed[0] - attention.seg_embed[1]
        same = ((q + attention.r_s_bias[:, None]) * apart[:, None]).sum(-1, keepdim=True)
        q = torch.cat([q, same * segments], dim=-1)
        k = torch.cat([k, segments.expand(-1, k.shape[1], -1, -1)], dim=-1)
        wider = (0, segments.shape[-1])
        rows, content_bias, position_bias = (
            F.pad(x, wider) for x in (rows, content_bias, position_bias)
        )
    terms = (
        GatherTable(rows, zero=k.shape[2], side="q", bias=position_bias),
        GatherTable(content_bias[:, None], zero=0, side="k", saturates=True),
    )
    dropout = attention.dropout.p if attention.training else 0.0
    out = attend_by(
        terms, attention, number, q, k, v, told.sight, scale=attention.scale, dropout=dropout
    )
    return out.permute(2, 0, 1, 3)


XLNET = Family(
    _body,
    of_configuration,
    _enter,
    no_room="its layers project sinusoids of distances and have biases for them",
)
