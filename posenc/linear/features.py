"""From q, k and v to turned features, and from positions to what a state must know of them."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.encoding import Encoding
from posenc.equation import group
from posenc.errors import PositionsError, SettingError, ShapeError, UnsupportedError, shown
from posenc.linear.scan import Features, Place
from posenc.lowering import Lowerable, Lowered, check_fits, flatten, lower
from posenc.padding import zeroed
from posenc.positions import Positions
from posenc.rotation import per_query_head, rotate_pairs, waves_of
from posenc.terms import Rotate
from posenc.torch_modes import altered, arithmetic

FeatureMap = Callable[[Tensor], Tensor]


def elu_plus_one(x: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    """elu(x) + 1: x + 1 above 0, and below it exp(x), which elu computes as exp(x) - 1."""
    return torch.where(x > 0, x + 1, x.masked_fill(x > 0, 0).exp())


def features_of(
    q: Float[Tensor, "b h tq d"],
    k: Float[Tensor, "b g tk d"],
    v: Float[Tensor, "b g tk d_v"],
    rotary: Lowerable,
    positions: Positions,
    feature_map: FeatureMap,
) -> tuple[Features, Lowered]:
    """phi of queries and keys, rotated by the one rotation that `rotary` lowers to.

    k may hold only the last of the keys that the positions tell of.
    """
    dtype, batch = arithmetic(q, k), positions.batch
    if batch != 1 and batch != q.shape[0]:
        raise PositionsError(
            f"positions for a batch of {batch}, but q has {q.shape[0]} rows: give one row, or one "
            "per batch entry"
        )
    valid = positions.keys.valid
    valid = None if valid is None else valid[:, -k.shape[2] :]
    q, k, v = zeroed(q, positions.queries.valid), zeroed(k, valid), zeroed(v, valid)
    q, k = _mapped("q", q.to(dtype), feature_map), _mapped("k", k.to(dtype), feature_map)
    lowered = _one_rotation(rotary, positions, q)
    rotated_q, rotated_k, v = q, k, v.to(dtype)
    for term in lowered.terms:
        if isinstance(term, Rotate):
            waves = lowered.form.waves(dtype)
            if term.gain != 1.0:
                # It sharpens a softmax; here it would multiply the output by its square.
                waves = waves_of(altered(term, gain=1.0), dtype)
            q_waves, k_waves = waves
            assert k_waves is not None
            rotated_q = rotate_pairs(q, *q_waves, term.layout, term.start)
            cos, sin = (wave[..., -k.shape[2] :, :] for wave in k_waves)
            rotated_k = rotate_pairs(
                per_query_head(k, term, q.shape[1]), cos, sin, term.layout, term.start
            )
    # Where every query head turns keys by its own angles, nothing is left to share.
    k, v = group(k, rotated_k.shape[1]), group(v, rotated_k.shape[1])
    shared = rotated_k.shape[1], -1
    queries = (x.unflatten(1, shared) for x in (rotated_q, q))
    return Features(*queries, *(x[:, :, None] for x in (rotated_k, k, v))), lowered


def place_of(positions: Positions, caller: str) -> Place:
    """Documents and padding of the keys, where tokens come in an order that a state can follow.

    Raises PositionsError where queries are not the last keys, where orders do not rise along a
    document, or where a document comes twice. A traced graph takes values as they are.
    """
    length, queries = positions.k_len, positions.q_len
    document, valid = positions.keys.document, positions.keys.valid
    document = None if document is None else document.view(-1, length)
    if queries > length:
        raise PositionsError(
            f"{caller}: {queries} queries and {length} keys: a state is read by tokens that are "
            'keys themselves; for others use form="parallel"'
        )
    if positions.in_order or torch.compiler.is_compiling():
        return Place(document, valid)
    last = slice(length - queries, None)
    q_order, k_order = (order.view(-1, order.shape[-1]) for order in positions.orders())
    alike = (q_order == k_order[:, last]).all()
    follows = k_order[:, 1:] > k_order[:, :-1]
    if valid is not None:
        follows = follows | ~valid[:, 1:] | ~valid[:, :-1]
    if document is not None and positions.queries.document is not None:
        begins = document[:, 1:] != document[:, :-1]
        ordered = document.sort(dim=-1).values
        distinct = (ordered[:, 1:] != ordered[:, :-1]).sum(dim=-1)
        alike = alike & (positions.queries.document.view(-1, queries) == document[:, last]).all()
        alike = alike & (begins.sum(dim=-1) == distinct).all()
        follows = follows | begins
    if not (alike & follows.all()):
        raise PositionsError(
            f"{caller}: a state meets each key once, before the queries after it, so queries must "
            "be the last keys, orders rise along each document, and documents be contiguous, as "
            'Positions.build makes them; for other orders use form="parallel"'
        )
    return Place(document, valid)


def _mapped(name: str, x: Tensor, feature_map: FeatureMap) -> Tensor:
    if not callable(feature_map):
        raise SettingError(
            f"linear_attention(feature_map={shown(feature_map)}): a function of q and of k is "
            "needed; leave it away for elu(x) + 1"
        )
    features: object = feature_map(x)
    if not isinstance(features, Tensor):
        raise ShapeError(
            f"linear_attention(feature_map=...) made a {type(features).__name__} out of {name}, "
            "where a tensor is needed"
        )
    if features.ndim != 4 or features.shape[:3] != x.shape[:3] or features.dtype != x.dtype:
        raise ShapeError(
            f"linear_attention(feature_map=...) made {tuple(features.shape)} of {features.dtype} "
            f"out of {name} of shape {tuple(x.shape)} and {x.dtype}: only the last dimension may "
            "change"
        )
    return features


def _one_rotation(rotary: Lowerable, positions: Positions, q: Tensor) -> Lowered:
    """What `rotary` lowers to, if that is one rotation or nothing."""
    for part in [] if isinstance(rotary, Lowered) else flatten(rotary):
        if isinstance(part, Encoding):
            check_fits(part, head_dim=q.shape[-1])
            if part.tags.needs_context:
                raise _refusal(rotary, f"{type(part).__name__} changes scores")
    lowered = lower(rotary, positions, dtype=q.dtype)
    terms = lowered.terms
    if len(terms) > 1 or not all(isinstance(term, Rotate) for term in terms):
        raise _refusal(rotary, f"it lowers to {[type(term).__name__ for term in terms]}")
    for term in terms:
        assert isinstance(term, Rotate)
        if term.q_log_scale is not None or term.k_log_scale is not None:
            raise _refusal(rotary, "it has factors that differ by position, which may grow with it")
        if term.k_angle is None:
            raise _refusal(rotary, "its keys come turned out of a cache")
    return lowered


def _refusal(rotary: Lowerable, why: str) -> UnsupportedError:
    return UnsupportedError(
        f"linear attention with {rotary!r}: {why}; it never has the scores of single pairs, so it "
        "takes encodings that turn q and k once, as Rotary does, or none: use attend"
    )
