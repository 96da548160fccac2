"""attend, scores and rotate: what a user calls.

Letters: b batch, h query heads, g key heads, tq queries, tk keys, d head dimension.
"""

from dataclasses import replace
from typing import Any

from jaxtyping import Float
from torch import Tensor

from posenc.backends import BACKENDS, choose
from posenc.backends.call import Call
from posenc.cache import Cache
from posenc.encoding import Context, Encoding
from posenc.equation import arithmetic, scores_of
from posenc.errors import PositionsError, ShapeError, UnsupportedError
from posenc.lowering import Lowerable, Lowered, check_fits, flatten, lower
from posenc.native.turning import check_inplace, turned, turned_
from posenc.positions import Positions, as_positions
from posenc.precision import autocast_off
from posenc.rotation import turn_both
from posenc.terms import Rotate


def attend(
    q: Float[Tensor, "b h tq d"],
    k: Float[Tensor, "b g tk d"],
    v: Float[Tensor, "b g tk d_v"],
    encoding: Lowerable = None,
    *,
    causal: bool | None = None,
    positions: Positions | Tensor | None = None,
    context: Context | None = None,
    cache: Cache | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
    backend: str = "auto",
) -> Float[Tensor, "b h tq d_v"]:
    """Attention with position: softmax(scores) v, and what value tables add.

    encoding   an Encoding, terms, a list that composes them, or what `lower` returned
    causal     a query sees no later key; None: as the positions say, else False
    positions  Positions, coordinates of the keys, or None: the queries are the LAST tq of tk tokens
    context    the layer's input, for encodings that read it
    cache      k and v are the new tokens only: they are turned, appended and attended to
    scale      of q . k; None is d**-0.5 (T5 has none: pass 1.0)
    dropout    on the attention weights; pass 0.0 in evaluation
    backend    "auto", or one by name, which raises rather than fall back

    Rows that see nothing are zero, in the gradient too. The output has v's dtype.
    """
    call = _call(q, k, v, encoding, causal, positions, context, cache, scale, dropout)
    if backend != "auto" and backend not in BACKENDS:
        raise UnsupportedError(
            f"attend(backend={backend!r}): known are auto, {', '.join(sorted(BACKENDS))}"
        )
    if backend != "auto":
        refusal = BACKENDS[backend].refusal(call)
        if refusal is not None:
            raise UnsupportedError(f"attend(backend={backend!r}) cannot compute this: {refusal}")
        return _run(backend, call)
    return _run(choose(call)[0], call)


def explain_backend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    encoding: Lowerable = None,
    *,
    causal: bool | None = None,
    positions: Positions | Tensor | None = None,
    context: Context | None = None,
) -> str:
    """Which backend `auto` takes for this call, and why those before it refuse."""
    call = _call(q, k, v, encoding, causal, positions, context, None, None, 0.0)
    name, reasons = choose(call)
    return "\n".join(f"{name}: {reason}" for name, reason in (reasons | {name: "taken"}).items())


def scores(
    q: Float[Tensor, "b h tq d"],
    k: Float[Tensor, "b g tk d"],
    encoding: Lowerable = None,
    *,
    causal: bool | None = None,
    scale: float | None = None,
    positions: Positions | Tensor | None = None,
    context: Context | None = None,
) -> Float[Tensor, "b h tq tk"]:
    """The eager definition of every term: scores of all pairs, -inf where not visible.

    In at least float32; arguments as in `attend`. Values and dropout are not part of it.
    """
    call = _call(q, k, k, encoding, causal, positions, context, None, scale, 0.0)
    with autocast_off(q.device):
        return scores_of(call.q, call.k, call.lowered, call.scale)


def rotate(
    q: Float[Tensor, "b h tq d"],
    k: Float[Tensor, "b g tk d"],
    encoding: Lowerable,
    *,
    positions: Positions | Tensor | None = None,
    inplace: bool = False,
) -> tuple[Float[Tensor, "b h tq d"], Float[Tensor, "b g tk d"]]:
    """q and k turned by a rotary encoding, in their own dtypes.

    Arithmetic is float32 (float64 for float64 inputs), from float64 angles. inplace writes into
    q and k and returns them; a tensor that needs a gradient must then be a result, no leaf and no
    view of another.

    Raises UnsupportedError for an encoding whose effect is not one rotation of each, and where
    writing in place would break the gradient.
    """
    if isinstance(encoding, Lowered) and positions is None:
        # Straight on, for one token is turned faster than all checks of _lowered are made.
        lowered = encoding
        as_positions(lowered.positions, q.shape[-2], k.shape[-2])
    else:
        lowered = _lowered(q, k, encoding, None, positions, None)
    term = lowered.terms[0] if len(lowered.terms) == 1 else None
    if not isinstance(term, Rotate):
        kinds = [type(term).__name__ for term in lowered.terms]
        raise UnsupportedError(
            f"rotate({encoding!r}): it lowers to {kinds}, not to one Rotate; use attend or scores"
        )
    dtype = arithmetic(q, k)
    if term.q_log_scale is not None or term.k_log_scale is not None:
        with autocast_off(q.device):
            turned_q, turned_k = turn_both(q, k, term, dtype)
        if inplace:
            check_inplace(q, k)
            return q.copy_(turned_q), k.copy_(turned_k)
        return turned_q.to(q.dtype), turned_k.to(k.dtype)
    q_turn, k_turn = lowered.turns(term, dtype)
    run = turned_ if inplace else turned
    if k_turn is None:
        return run((q,), q_turn[:1], q_turn[1:], term.layout, term.start)[0], k
    cos, sin = zip(q_turn, k_turn, strict=True)
    turned_q, turned_k = run((q, k), cos, sin, term.layout, term.start)
    return turned_q, turned_k


def _call(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    encoding: Lowerable,
    causal: bool | None,
    positions: Positions | Tensor | None,
    context: Context | None,
    cache: Cache | None,
    scale: float | None,
    dropout: float,
) -> Call:
    _check_shapes(q, k, v)
    if not 0.0 <= dropout < 1.0:
        raise UnsupportedError(f"attend(dropout={dropout}): a probability in [0, 1) is needed")
    keys = k.shape[-2]
    if cache is not None:
        cache.check(encoding, k.shape[-2])
        keys = cache.keys(k.shape[-2])
    if context is not None:
        context = _with_payload(encoding, context, q.shape[0], keys, cache)
    lowered = _lowered(q, k, encoding, causal, positions, context, cache)
    if lowered.turned and cache is None:
        raise PositionsError(
            "these terms turn the queries' own tokens only, the other keys being turned in a "
            "cache: pass cache=, or lower them without turned=True"
        )
    if cache is not None:
        k, v, lowered = cache.append(k, v, lowered, None if context is None else context.payload)
    return Call(q, k, v, lowered, q.shape[-1] ** -0.5 if scale is None else scale, dropout)


def _lowered(
    q: Tensor,
    k: Tensor,
    encoding: Lowerable,
    causal: bool | None,
    positions: Positions | Tensor | None,
    context: Context | None,
    cache: Cache | None = None,
) -> Lowered:
    q_len, new = q.shape[-2], k.shape[-2]
    k_len = new if cache is None else cache.keys(new)
    if isinstance(encoding, Lowered):
        lowered = lower(encoding, positions, causal=causal)
        # Only for its check that the positions fit these tensors.
        as_positions(lowered.positions, q_len, k_len)
    else:
        for part in flatten(encoding):
            if isinstance(part, Encoding):
                check_fits(part, head_dim=q.shape[-1])
        place: dict[str, Any] = {"causal": causal, "device": q.device}
        if cache is None:
            positions, turned = as_positions(positions, q_len, k_len, **place), False
        else:
            positions = cache.place(new, positions, encoding, q_len=q_len, **place)
            turned = cache.policy == "rotated" and q_len == new
        lowered = lower(encoding, positions, context=context, dtype=arithmetic(q, k), turned=turned)
    batch = lowered.positions.batch
    if batch != 1 and batch != q.shape[0]:
        raise PositionsError(
            f"positions for a batch of {batch}, but q has shape "
            f"{tuple(q.shape)}: give one row, or one per batch entry"
        )
    return lowered


def _with_payload(
    encoding: Lowerable, context: Context, batch: int, keys: int, cache: Cache | None
) -> Context:
    """The context with the payload of every key: as given, or made of x and what the cache keeps.

    A batch of another size would broadcast, and widen the output.
    """
    payload = context.payload
    for name, given in (("x", context.x), ("payload", payload)):
        if given is not None and given.shape[0] not in (1, batch):
            raise ShapeError(
                f"Context({name}=...) has shape {tuple(given.shape)}, but q has a batch of "
                f"{batch}: give one row for each of q's"
            )
    if payload is None and context.x is not None:
        payload = _payload(encoding, context.x, cache)
    if payload is not None and payload.shape[-1] != keys:
        raise ShapeError(
            f"the context tells of {payload.shape[-1]} tokens, but there are {keys} keys: give "
            "Context(x=...) of every key or, while decoding, of the new tokens with the cache that "
            "all tokens before them went through, by their encoding and not by lowered terms"
        )
    return replace(context, payload=payload)


def _payload(encoding: Lowerable, x: Tensor, cache: Cache | None) -> Tensor | None:
    if isinstance(encoding, Lowered):
        return None
    made = [part.payload(x) for part in flatten(encoding) if isinstance(part, Encoding)]
    made = [payload for payload in made if payload is not None]
    if len(made) > 1:
        raise UnsupportedError("two encodings of one call keep a payload per key: choose one")
    payload = made[0] if made else None
    return payload if cache is None else cache.payload_with(payload)


def _run(name: str, call: Call) -> Tensor:
    with autocast_off(call.q.device):
        return BACKENDS[name].attend(call)


def _check_shapes(q: Tensor, k: Tensor, v: Tensor) -> None:
    shapes = f"q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}"
    if not q.ndim == k.ndim == v.ndim == 4:
        raise ShapeError(f"(batch, heads, tokens, head dimension) is needed, got {shapes}")
    if not (q.is_floating_point() and k.is_floating_point() and v.is_floating_point()):
        raise ShapeError(f"floating-point tensors are needed, got {q.dtype}, {k.dtype}, {v.dtype}")
    if q.shape[0] != k.shape[0] or k.shape[:3] != v.shape[:3] or q.shape[-1] != k.shape[-1]:
        raise ShapeError(
            "q and k must share batch and head dimension, k and v batch, heads and tokens; "
            f"got {shapes}"
        )
    if q.shape[1] % k.shape[1]:
        raise ShapeError(
            f"{q.shape[1]} query heads and {k.shape[1]} key heads: "
            "grouped-query attention needs a multiple"
        )
