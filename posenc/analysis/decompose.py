"""Scores taken apart: what tokens, positions, and both together add to each of them.

Letters: b batch, h query heads, g key heads, tq queries, tk keys, d head dimension, c width of x.
"""

from dataclasses import dataclass, replace
from typing import Any, overload

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from posenc.analysis.decomposition import Decomposition
from posenc.autocast import autocast_off
from posenc.backends.call import Call
from posenc.build_call import build_call
from posenc.encoding import Context, Encoding
from posenc.equation import (
    arithmetic,
    content_scale,
    counted,
    distance_bias,
    gathered,
    group,
    mask_rules,
    rotated_content,
)
from posenc.errors import ShapeError, UnsupportedError
from posenc.lowering import Lowerable, Lowered, Part, embeds_only, flatten
from posenc.positions import Documents, Positions, as_positions
from posenc.terms import (
    CountTable,
    DenseBias,
    DistanceTable,
    GatherTable,
    Offset,
    Rotate,
    Scale,
    Slope,
    Zones,
)


@overload
def decompose(
    q: Float[Tensor, "b h tq d"],
    k: Float[Tensor, "b g tk d"],
    encoding: Lowerable = None,
    /,
    *,
    causal: bool | None = None,
    scale: float | None = None,
    positions: Positions | Tensor | None = None,
    context: Context | None = None,
) -> Decomposition: ...


@overload
def decompose(
    x: Float[Tensor, "b t c"],
    encoding: Lowerable,
    w_q: Float[Tensor, "c_out h d"],
    w_k: Float[Tensor, "c_out g d"],
    /,
    *,
    causal: bool | None = None,
    scale: float | None = None,
    positions: Positions | Tensor | None = None,
    context: Context | None = None,
) -> Decomposition: ...


def decompose(
    first: Tensor,
    second: Any,
    third: Any = None,
    fourth: Any = None,
    /,
    *,
    causal: bool | None = None,
    scale: float | None = None,
    positions: Positions | Tensor | None = None,
    context: Context | None = None,
) -> Decomposition:
    """The scores of `encoding` as five parts that add up to them, per head.

        score = token_token + token_position + position_token + position_position + interaction

    `decompose(q, k, encoding)` takes apart what terms do; q and k count as tokens:

        token_token        scale * q . k, as without position
        token_position     q meets a table: Shaw, DeBERTa's c2p
        position_token     k meets a table: DeBERTa's p2c
        position_position  neither enters: distance tables, slopes, offsets, dense biases
        interaction        rotation (turned minus plain content), what CoPE adds, and a Scale that
                           differs between queries (what it adds to the content)

    A bias that joins q or k before a table is filed under position_position. So of Transformer-XL's
    four, content-content (a) is token_token, content-position (b) token_position, the content bias
    u . k (c) position_token, and the position bias v . R (d) position_position. The gates of
    ForgetGate are made of tokens, but enter as an offset of positions and are filed there.

    `decompose(x, encoding, w_q, w_k)` takes apart what embeddings do; the projections have shape
    (c_out, h, d) and (c_out, g, d), c_out being the width of `embed`'s output. With p = embed(0),
    and zeros behind x where embed widens it,

        q = (x + p + rest) w_q,   k = (x + p + rest) w_k,   rest = embed(x) - x - p

    merge "add" and "concat" leave no rest and split into four. For "multiply" p is 0 and the rest
    is x times its position, and what has a rest on either side is interaction. A list may hold
    relative encodings besides: a table that p meets is filed under position_position, one that the
    rest meets under interaction.

    causal, scale, positions and context are those of `posenc.scores`. Value tables are no part of
    the scores; hidden pairs are 0 in every part. Arguments before the star go by position. Raises
    UnsupportedError where embeddings are to be told from q and k, ShapeError for projections that
    do not fit, and what `scores` raises.

    Source: Dai et al. 2019, arXiv:1901.02860, section 3.3, where Transformer-XL's four come from;
    Ke et al. 2021, arXiv:2006.15595, section 3.1, for the four of absolute embeddings.
    """
    if isinstance(second, Tensor) and fourth is not None:
        raise UnsupportedError(
            "decompose(tensor, tensor, ...) with four arguments: it takes (q, k, encoding) or "
            "(x, encoding, w_q, w_k)"
        )
    if isinstance(second, Tensor):
        q, k, encoding = _tokens(first), _tokens(second), third
        _refuse_embeddings(encoding)
    else:
        if first.ndim != 3:
            raise ShapeError(
                f"decompose(x, {second!r}, w_q, w_k): x has shape {tuple(first.shape)}, but "
                "(batch, tokens, width) is needed"
            )
        positions = as_positions(positions, first.shape[1], causal=causal, device=first.device)
        causal = None
        q, k, encoding, positions = _projected(first, second, third, fourth, positions)
    whole = q.whole(), k.whole()
    call = build_call(
        *whole,
        whole[1],
        encoding,
        causal=causal,
        positions=positions,
        context=context,
        scale=scale,
    )
    with autocast_off(first.device):
        return _decomposed(q, k, call)


@dataclass(frozen=True, eq=False)
class _Sources:
    """What queries or keys are the sum of: tokens, positions, and what mixes both."""

    token: Tensor
    position: Tensor
    rest: Tensor

    def map(self, function: Any) -> "_Sources":
        return _Sources(*map(function, (self.token, self.position, self.rest)))

    def whole(self) -> Tensor:
        return self.token + self.position + self.rest


def _tokens(x: Tensor) -> _Sources:
    return _Sources(x, torch.zeros_like(x), torch.zeros_like(x))


def _refuse_embeddings(encoding: Lowerable) -> None:
    for part in [] if isinstance(encoding, Lowered) else flatten(encoding):
        if embeds_only(part):
            raise UnsupportedError(
                f"decompose(q, k, {part!r}): {type(part).__name__} changes the embeddings, and q "
                "and k do not tell by how much: call decompose(x, encoding, w_q, w_k)"
            )


def _projected(
    x: Tensor, encoding: Lowerable, w_q: Any, w_k: Any, positions: Positions
) -> tuple[_Sources, _Sources, list[Part], Positions]:
    """What embeddings make of x, projected; then what is left to attention."""
    embedding: list[Encoding] = []
    attending: list[Part] = []
    for part in flatten(encoding):
        if isinstance(part, Documents):
            positions = part.place(positions)
        elif isinstance(part, Encoding) and type(part).embed is not Encoding.embed:
            embedding.append(part)
        else:
            attending.append(part)

    def embedded(x: Tensor) -> Tensor:
        for part in embedding:
            x = part.embed(x, positions)
        return x

    whole, position = embedded(x), embedded(torch.zeros_like(x))
    token = F.pad(x, (0, whole.shape[-1] - x.shape[-1]))
    sources = _Sources(token, position, whole - (token + position))
    for name, weight in (("w_q", w_q), ("w_k", w_k)):
        if weight is None or weight.ndim != 3 or weight.shape[0] != whole.shape[-1]:
            shape = None if weight is None else tuple(weight.shape)
            raise ShapeError(
                f"decompose(x, {encoding!r}, w_q, w_k): {name} has shape {shape}, but embeddings "
                f"are {whole.shape[-1]} wide: ({whole.shape[-1]}, heads, head dimension) is needed"
            )
    with autocast_off(x.device):
        q, k = (
            sources.map(lambda part, w=weight: torch.einsum("btc,chd->bhtd", part, w))
            for weight in (w_q, w_k)
        )
    return q, k, attending, positions


def _decomposed(q: _Sources, k: _Sources, call: Call) -> Decomposition:
    """Every term, filed under what enters it; computed as `posenc.equation.scores_of` does."""
    terms, positions = call.lowered.terms, call.lowered.positions
    dtype = arithmetic(call.q, call.k)
    q, k = q.map(lambda x: x.to(dtype)), k.map(lambda x: x.to(dtype))
    inside = _content(q, k, call, dtype)
    content = torch.stack(list(inside.values())).sum(dim=0)
    # A factor that all queries share is part of the scale; one of each query mixes with content.
    shared = [t for t in terms if isinstance(t, Scale) and not isinstance(t.factor, Tensor)]
    flat = content_scale(tuple(shared), call.scale, dtype)
    factor = content_scale(terms, call.scale, dtype)
    part = {name: value * flat for name, value in inside.items()}
    if isinstance(factor, Tensor):
        part["interaction"] = part["interaction"] + content * (factor - flat)
    visible = positions.visible(mask_rules(terms))
    bias = torch.zeros((), dtype=dtype, device=call.q.device)
    for term in terms:
        if isinstance(term, (DistanceTable, Slope)) and not term.inside:
            bias = bias + distance_bias(term, positions, dtype)
        elif isinstance(term, Offset):
            bias = bias + (term.q[..., :, None] + term.k[..., None, :]).to(dtype)
        elif isinstance(term, DenseBias):
            bias = bias + term.values.to(dtype)
        elif isinstance(term, CountTable):
            added = counted(term, q.whole(), content * factor, visible)
            part["interaction"] = part["interaction"] + added
    part["position_position"] = part["position_position"] + bias
    seen = part["position_position"] != -torch.inf
    seen = seen if visible is None else seen & visible
    return Decomposition(
        **{name: value.masked_fill(~seen, 0.0) for name, value in part.items()}, visible=seen
    )


def _content(q: _Sources, k: _Sources, call: Call, dtype: torch.dtype) -> dict[str, Tensor]:
    """Parts of what the scale multiplies."""
    terms, positions = call.lowered.terms, call.lowered.positions

    def dot(q: Tensor, k: Tensor) -> Tensor:
        return q @ group(k, q.shape[1]).mT

    part = {
        "token_token": dot(q.token, k.token),
        "token_position": dot(q.token, k.position),
        "position_token": dot(q.position, k.token),
        "position_position": dot(q.position, k.position),
        "interaction": dot(q.rest, k.whole()) + dot(q.token + q.position, k.rest),
    }

    def add(name: str, value: Tensor) -> None:
        part[name] = part[name] + value

    if any(isinstance(term, (Rotate, Zones)) for term in terms):
        whole = q.whole(), k.whole()
        add("interaction", rotated_content(*whole, terms, positions, dtype) - dot(*whole))
    for term in terms:
        if isinstance(term, GatherTable):
            plain = replace(term, bias=None)
            reader = "token_position" if term.side == "q" else "position_token"
            add(reader, gathered(plain, q.token, k.token, positions))
            add("position_position", gathered(term, q.position, k.position, positions))
            add("interaction", gathered(plain, q.rest, k.rest, positions))
        elif isinstance(term, (DistanceTable, Slope)) and term.inside:
            add("position_position", distance_bias(term, positions, dtype))
    return part
