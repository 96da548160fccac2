"""DeBERTa of versions 2 and 3: disentangled attention by the layer's own projections.

Letters: b batch, h heads, t tokens, d head dimension, c model dimension.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from posenc.encoding import Context, Encoding
from posenc.encodings._weights import linear_in_dtype
from posenc.errors import UnsupportedError
from posenc.models.attach.attachment import Attachment
from posenc.models.attach.body import Body
from posenc.models.attach.family import Family
from posenc.models.attach.mask import posenc_mask
from posenc.models.attach.own.layer_terms import attend_by
from posenc.models.attach.own.parts import body_of, choose_posenc, inside, no_bias
from posenc.models.attach.sight import Sight
from posenc.models.spec import EncodingSpec, ModelSpec
from posenc.positions import as_positions
from posenc.terms import Term
from posenc.torch_modes import arithmetic


class Lowering(nn.Module):
    """`lower` as a forward pass, so that it can be called with other weights."""

    def __init__(self, encoding: Encoding) -> None:
        super().__init__()
        self.encoding = encoding

    def forward(self, *args: Any, **told: Any) -> tuple[Term, ...]:
        return self.encoding.lower(*args, **told)


def _body(model: Any, spec: ModelSpec) -> Body:
    if not all(layer is not None and layer.encodings for layer in spec.layers):
        raise UnsupportedError(
            f"attach: {type(model).__name__} with relative_attention=False tells attention of no "
            "positions"
        )
    attentions = [layer.attention.self for layer in inside(model, "DebertaV2Encoder").layer]
    return body_of(model, spec, spec.layers, attentions)


def _encoding(body: Body) -> Encoding:
    """Disentangled attention by a table that the encoder norms, and that layers project."""
    (said,) = body.layers[0].encodings
    settings = {**said.settings, "projections": "layer", "norm": False}
    # Its own table is never read.
    with torch.device("meta"):
        return EncodingSpec(said.name, settings).build()


def _encodings(body: Body, attachment: Attachment) -> list[tuple[Encoding, ...]]:
    return [(_encoding(body),)] * len(body.layers)


def _enter(body: Body, attachment: Attachment) -> None:
    choose_posenc(body, attachment)
    encoder = inside(body.model, "DebertaV2Encoder")
    attachment.put(encoder, "get_attention_mask", partial(_sight, encoder))
    attachment.put(encoder, "get_rel_pos", partial(no_bias, encoder))
    lowering = Lowering(_encoding(body))
    for number, attention in enumerate(body.attentions):
        attachment.put(attention, "forward", partial(_forward, attention, number, lowering))


def _sight(encoder: nn.Module, attention_mask: Tensor) -> Sight:
    """In place of DebertaV2Encoder.get_attention_mask, of a mask (b, t) or (b, t, t)."""
    from transformers.masking_utils import bidirectional_mask_function

    batch, length, device = len(attention_mask), attention_mask.shape[-1], attention_mask.device
    if attention_mask.ndim > 2:
        seen = attention_mask.bool()
        seen = seen[:, None] if seen.ndim == 3 else seen
        return Sight(as_positions(None, length, device=device), seen=seen)
    return posenc_mask(
        batch,
        length,
        length,
        mask_function=bidirectional_mask_function,
        attention_mask=attention_mask.bool(),
        device=device,
        allow_is_bidirectional_skip=True,
    )


def _forward(
    attention: Any,
    number: int,
    lowering: Lowering,
    hidden_states: Tensor,
    attention_mask: Sight,
    output_attentions: bool = False,
    query_states: Tensor | None = None,
    relative_pos: Tensor | None = None,
    rel_embeddings: Tensor | None = None,
) -> tuple[Tensor, None]:
    """In place of DisentangledSelfAttention.forward."""
    if query_states is not None or relative_pos is not None:
        raise UnsupportedError(
            "attach: DeBERTa with query_states or relative_pos of the caller's, as z_steps > 1 "
            "has them, goes another way than posenc's; detach(model) first"
        )
    linears = attention.query_proj, attention.key_proj, attention.value_proj
    q, k, v = (_heads(linear(hidden_states), attention) for linear in linears)
    project_q, project_k = (partial(_project, attention, name) for name in ("query", "key"))
    terms = functional_call(
        lowering,
        {"encoding.weight": attention.pos_dropout(rel_embeddings)},
        (attention_mask.positions, Context(project_q=project_q, project_k=project_k)),
        {"dtype": arithmetic(q, k)},
    )
    dropout = attention.dropout.p if attention.training else 0.0
    out = attend_by(terms, attention, number, q, k, v, attention_mask, dropout=dropout)
    return out.transpose(1, 2).flatten(2), None


def _heads(x: Tensor, attention: Any) -> Tensor:
    """(b, t, h * d) as (b, h, t, d)."""
    return x.unflatten(-1, (attention.num_attention_heads, -1)).transpose(1, 2)


def _project(attention: Any, side: str, table: Tensor) -> Tensor:
    """Rows (n, c) as (h, n, d), by weights that contents share or by those of positions."""
    name = f"{side}_proj" if attention.share_att_key else f"pos_{side}_proj"
    return _heads(linear_in_dtype(table, getattr(attention, name))[None], attention)[0]


DEBERTA = Family(
    _body,
    _encodings,
    _enter,
    no_room="its layers project a table of distances, and their scale counts those products",
)
