"""Scores taken apart: what tokens, positions, and both together add to each of them.

Letters: b batch, h query heads, g key heads, tq queries, tk keys, d head dimension, c width of x.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args, overload

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posenc.analysis.decomposition import Decomposition, check_total
from posenc.analysis.probe_context import embeds
from posenc.analysis.sources import Sources, embedded, normed, of_tokens, projected
from posenc.attention import build_call
from posenc.backends.backend import Call
from posenc.encoding import Context, Encoding
from posenc.equation import (
    content_scale,
    counted,
    distance_bias,
    gathered,
    grid_bias,
    group,
    mask_rules,
    network_bias,
    rotated_content,
)
from posenc.errors import ShapeError, UnsupportedError
from posenc.lowering import Lowerable, Lowered, embeds_only, flatten
from posenc.padding import zeroed
from posenc.positions import Documents, Positions, as_positions
from posenc.terms import (
    CountTable,
    DenseBias,
    DistanceTable,
    GatherTable,
    GridTable,
    Network,
    Offset,
    Polar,
    Scale,
    Slope,
    Term,
    Transform,
    Turn,
)
from posenc.torch_modes import arithmetic, autocast_off
from posenc.transform import transformed


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
    scores: Float[Tensor, "b h tq tk"] | None = None,
) -> Decomposition: ...


@overload
def decompose(
    x: Float[Tensor, "b t c"],
    encoding: Lowerable,
    w_q: Float[Tensor, "c_out h d"],
    w_k: Float[Tensor, "c_out g d"],
    /,
    *,
    b_q: Float[Tensor, "h d"] | None = None,
    b_k: Float[Tensor, "g d"] | None = None,
    norm: nn.Module | None = None,
    causal: bool | None = None,
    scale: float | None = None,
    positions: Positions | Tensor | None = None,
    context: Context | None = None,
    scores: Float[Tensor, "b h t t"] | None = None,
) -> Decomposition: ...


def decompose(
    first: Tensor,
    second: Any,
    third: Any = None,
    fourth: Any = None,
    /,
    *,
    b_q: Tensor | None = None,
    b_k: Tensor | None = None,
    norm: nn.Module | None = None,
    causal: bool | None = None,
    scale: float | None = None,
    positions: Positions | Tensor | None = None,
    context: Context | None = None,
    scores: Tensor | None = None,
) -> Decomposition:
    """The scores of `encoding` as five parts that add up to them, per head.

        score = token_token + token_position + position_token + position_position + interaction

    `decompose(q, k, encoding)` takes apart what terms do; q and k count as tokens:

        token_token        scale * q . k, as without position
        token_position     q meets a table: Shaw, DeBERTa's c2p
        position_token     k meets a table: DeBERTa's p2c
        position_position  neither enters: distance tables, slopes, networks, offsets, dense
                           biases
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

    A layer with norms and biases is taken apart with them: `norm`, a LayerNorm or RMSNorm between
    the embeddings and the projections, with the statistics of the whole, under which it is linear
    (`posenc.analysis.sources.normed`); b_q (h, d) and b_k (g, d), and the norm's bias, which are
    the same everywhere and count as the token's; segment embeddings, added to x by the caller.
    Without them the parts are those of a layer that has none. `scores` are those of the layer
    itself, before its mask or after: where the parts do not add up to them, an error says so.

    merge "add" and "concat" leave no rest and split into four. For "multiply" and "hadamard" p is 0
    and the rest is what they change of x, and what has a rest on either side is interaction. A list
    may hold relative encodings besides: a table that p meets is filed under position_position, one
    that the rest meets under interaction.

    causal, scale, positions and context are those of `posenc.scores`. Value tables and sink logits
    are no part of the scores; hidden pairs are 0 in every part. Arguments before the star go by
    position. Raises UnsupportedError where embeddings are to be told from q and k, for a norm that
    does not split and where the parts are not those of `scores`; ShapeError for projections, biases
    and scores that do not fit, and what `posenc.scores` raises.

        parts = decompose(x, Sinusoidal(64), w_q, w_k, norm=layer_norm, b_q=b_q, b_k=b_k)
        parts.share()["position_position"]   # of each head

    Source: Dai et al. 2019, arXiv:1901.02860, section 3.3, where Transformer-XL's four come from;
    Ke et al. 2021, arXiv:2006.15595, section 3.1, for the four of absolute embeddings.
    """
    if isinstance(second, Tensor):
        if fourth is not None:
            raise UnsupportedError(
                "decompose(tensor, tensor, ...) with four arguments: it takes (q, k, encoding) or "
                "(x, encoding, w_q, w_k)"
            )
        if norm is not None or b_q is not None or b_k is not None:
            raise UnsupportedError(
                "decompose(q, k, ...) with norm=, b_q= or b_k=: these lie before q and k, and "
                "belong to decompose(x, encoding, w_q, w_k)"
            )
        q, k, encoding = of_tokens(first), of_tokens(second), third
        for part in [] if isinstance(encoding, Lowered) else flatten(encoding):
            if embeds_only(part):
                raise UnsupportedError(
                    f"decompose(q, k, {part!r}): {type(part).__name__} changes the embeddings, and "
                    "q and k do not tell by how much: call decompose(x, encoding, w_q, w_k)"
                )
    else:
        if first.ndim != 3:
            raise ShapeError(
                f"decompose(x, {second!r}, w_q, w_k): x has shape {tuple(first.shape)}, but "
                "(batch, tokens, width) is needed"
            )
        positions = as_positions(positions, first.shape[1], causal=causal, device=first.device)
        causal = None
        embedding: list[Encoding] = []
        encoding = []
        for part in flatten(second):
            if isinstance(part, Documents):
                positions = part.place(positions)
            elif isinstance(part, Encoding) and embeds(part):
                embedding.append(part)
            else:
                encoding.append(part)
        sources = normed(embedded(first, embedding, positions), norm)
        q, k = projected(sources, "q", third, b_q), projected(sources, "k", fourth, b_k)
    whole_q, whole_k = q.whole(), k.whole()
    options = {"causal": causal, "positions": positions, "context": context, "scale": scale}
    call = build_call(whole_q, whole_k, None, encoding, **options)
    with autocast_off(first.device):
        parts = _decomposed(q, k, call)
        if scores is not None:
            check_total(parts, scores)
        return parts


def _decomposed(q: Sources, k: Sources, call: Call) -> Decomposition:
    """Every term, filed under what enters it; computed as `posenc.equation.scores_of` does."""
    terms, positions = call.lowered.terms, call.lowered.positions
    dtype = arithmetic(call.q, call.k)
    asking = positions.queries.valid
    q, k = q.map(lambda x: zeroed(x.to(dtype), asking)), k.map(lambda x: x.to(dtype))
    inside = _content(q, k, call, dtype)
    q, k = _multiplied(q, k, terms, dtype)
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
        elif isinstance(term, Network):
            bias = bias + network_bias(term, positions, dtype)
        elif isinstance(term, GridTable):
            bias = bias + grid_bias(term, dtype)
        elif isinstance(term, GatherTable) and term.own is not None:
            told = gathered(term, term.own.to(dtype), k.whole(), positions)
            bias = bias + told * content_scale(terms, 1.0, dtype)
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
    hidden = {name: value.masked_fill(~seen, 0.0) for name, value in part.items()}
    return Decomposition(**hidden, visible=seen)


def _multiplied(
    q: Sources, k: Sources, terms: Sequence[Term], dtype: torch.dtype
) -> tuple[Sources, Sources]:
    """The summands of queries and keys as a Transform among the terms multiplies them."""
    pairs = (q.token, k.token), (q.position, k.position), (q.rest, k.rest)
    made = [transformed(*pair, terms, dtype) for pair in pairs]
    q, k = (Sources(*each) for each in zip(*made, strict=True))
    return q, k


def _content(q: Sources, k: Sources, call: Call, dtype: torch.dtype) -> dict[str, Tensor]:
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

    given = q.whole(), k.whole()
    turning = any(isinstance(term, (Transform, *get_args(Turn))) for term in terms)
    if turning:
        q, k = _multiplied(q, k, terms, dtype)

    def met(q: Tensor, k: Tensor) -> Tensor:
        return rotated_content(q, k, terms, positions, dtype)

    whole = q.whole(), k.whole()
    if any(isinstance(term, Polar) for term in terms):
        # Its magnitudes of zero are no zeros, and meet each other and those of tokens.
        nothing = q.token * 0, k.token * 0
        none = met(*nothing)
        of_q, of_k = met(q.token, nothing[1]) - none, met(nothing[0], k.token) - none
        add("position_position", none)
        add("token_position", of_q)
        add("position_token", of_k)
        add("interaction", met(*whole) - none - of_q - of_k - dot(*given))
    elif turning:
        add("interaction", met(*whole) - dot(*given))
    for term in terms:
        if isinstance(term, GatherTable) and term.own is None:
            plain = replace(term, bias=None)
            reader = "token_position" if term.side == "q" else "position_token"
            add(reader, gathered(plain, q.token, k.token, positions))
            add("position_position", gathered(term, q.position, k.position, positions))
            add("interaction", gathered(plain, q.rest, k.rest, positions))
        elif isinstance(term, (DistanceTable, Slope)) and term.inside:
            add("position_position", distance_bias(term, positions, dtype))
    return part
