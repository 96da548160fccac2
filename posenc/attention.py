"""attend: from what a user gives to one checked Call, and to the backend that takes it.

Letters: b batch, h query heads, g key heads, tq queries, tk keys, d head dimension.
"""

from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Literal, overload

from jaxtyping import Float
from torch import Tensor

from posenc.backends import BACKENDS, ORDER
from posenc.backends.backend import Call, check_shapes
from posenc.caches.cache import Cache
from posenc.caches.cached_positions import fresh_keys
from posenc.caches.rollback import unchanged_on_error
from posenc.encoding import Context, Encoding
from posenc.errors import PositionsError, UnsupportedError
from posenc.lowering import Lowerable, Lowered, check_fits, check_scale, check_sizes, flatten, lower
from posenc.padding import without_padding
from posenc.payload import with_payload
from posenc.plain_layer import as_before, layer_of, remember
from posenc.plain_query import kernel_reason, plain_query, suits_plain_query
from posenc.plain_step import plain_step
from posenc.positions import Positions, Tokens, as_positions
from posenc.torch_modes import arithmetic, autocast_off, autocasts, device_type


@overload
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
    return_lse: Literal[False] = False,
) -> Float[Tensor, "b h tq d_v"]: ...


@overload
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
    return_lse: Literal[True],
) -> tuple[Float[Tensor, "b h tq d_v"], Float[Tensor, "b h tq"]]: ...


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
    return_lse: bool = False,
) -> Float[Tensor, "b h tq d_v"] | tuple[Float[Tensor, "b h tq d_v"], Float[Tensor, "b h tq"]]:
    """Attention with position: softmax(scores) v, and what value tables add.

    encoding   an Encoding, terms, a list that composes them, or what `lower` returned
    causal     a query sees no later key; None: as the positions say, else False
    positions  Positions, coordinates of the keys, or None: the queries are the LAST tq of tk tokens
    context    the layer's input, for encodings that read it
    cache      k and v are the new tokens only: they are rotated, appended and attended to
    scale      of q . k; None is d**-0.5 (T5 has none: pass 1.0)
    dropout    on the attention weights; pass 0.0 in evaluation
    backend    "auto", or one by name, which raises rather than fall back
    return_lse  also the log of the sum of exp(score) over the keys that each query sees, a sink
               logit among them, (b, h, tq) in at least float32, before dropout; -inf where it sees
               none. `merge` joins by it what several calls made of parts of the keys

    Rows that see nothing are zero, in the gradient too. Padding is not seen, not even NaN, and asks
    as zeros would. The output has v's dtype. The log of the sum (arXiv:2205.14135, section 3.1)
    lets gradients through.

    Raises ShapeError for tensors that do not fit together or an encoding of other heads,
    PositionsError for positions of other sizes or that a term cannot read, UnsupportedError for
    what is no encoding, two rotations, a scale that is a tensor, or a backend that cannot compute
    this, CacheError where decoding could not equal the full forward.

    Example:

        q, k, v = torch.randn(3, 1, 8, 256, 64).unbind()
        out = posenc.attend(q, k, v, posenc.T5Bias(heads=8), causal=True)
    """
    check_scale(scale)
    asks_more = positions is not None or context is not None or dropout != 0 or return_lse
    out = layer = None
    if not asks_more and cache is not None:
        if backend == "auto":
            out = plain_step(q, k, v, encoding, cache, causal, scale)
    elif not asks_more:
        if isinstance(encoding, Lowered):
            layer = layer_of(q, k, v, causal, scale, backend)
            out = None if layer is None else as_before(q, k, v, encoding, layer)
        if out is None and backend == "auto" and q.ndim == 4 and q.shape[2] == 1:
            out = plain_query(q, k, v, encoding, causal, scale, layer)
    if out is not None:
        return out
    with nullcontext() if cache is None else unchanged_on_error([cache]):
        call = build_call(
            q,
            k,
            v,
            encoding,
            causal=causal,
            positions=positions,
            context=context,
            cache=cache,
            scale=scale,
            dropout=dropout,
            lse=return_lse,
        )
        chosen = BACKENDS[choose(call)[0] if backend == "auto" else _named(backend, call)]
        run = chosen.run(call)
        # What is remembered is called straight, by a layer that sets no padding to zero.
        if layer is not None and not call.lowered.positions.padded:
            remember(layer, call, run, chosen.next_layer)
        if not autocasts(device_type(q)):
            return run(call)
        with autocast_off(q.device):
            return run(call)


def explain_backend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    encoding: Lowerable = None,
    *,
    causal: bool | None = None,
    positions: Positions | Tensor | None = None,
    context: Context | None = None,
    return_lse: bool = False,
) -> str:
    """Which backend `auto` takes for this call, and why those before it do not.

    One line for each backend that was asked, in order. Arguments as in `attend`, and it raises what
    `attend` raises for them.

    Example:

        q, k, v = torch.randn(3, 1, 8, 256, 64).unbind()
        print(posenc.explain_backend(q, k, v, posenc.Rotary(64), causal=True))
    """
    place: dict[str, Any] = {"causal": causal, "positions": positions, "context": context}
    call = build_call(q, k, v, encoding, **place, lse=return_lse)
    name, reasons = choose(call)
    plain = positions is None and context is None and not return_lse
    if plain and suits_plain_query(q, k, v, encoding, causal):
        # One query goes by a way of its own, which asks nobody else.
        reason = kernel_reason(call)
        name, reasons = ("native", {}) if reason is None else ("sdpa", {"native": reason})
    return "\n".join(f"{name}: {reason}" for name, reason in (reasons | {name: "taken"}).items())


def choose(call: Call) -> tuple[str, dict[str, str]]:
    """The backend that `auto` takes, and why those before it are not taken."""
    reasons: dict[str, str] = {}
    able: list[str] = []
    for name in ORDER.get(device_type(call.q), BACKENDS):
        backend = BACKENDS[name]
        reason = backend.unsupported_reason(call)
        if reason is None:
            able.append(name)
            reason = backend.declines(call)
        if reason is None:
            return name, reasons
        reasons[name] = reason
    # The reference lacks nothing.
    del reasons[able[0]]
    return able[0], reasons


def _named(backend: str, call: Call) -> str:
    """The backend that was asked for, if it can compute this call."""
    if backend not in BACKENDS:
        raise UnsupportedError(
            f"attend(backend={backend!r}): known are auto, {', '.join(sorted(BACKENDS))}"
        )
    reason = BACKENDS[backend].unsupported_reason(call)
    if reason is not None:
        raise UnsupportedError(f"attend(backend={backend!r}) cannot compute this: {reason}")
    return backend


def build_call(
    q: Tensor,
    k: Tensor,
    v: Tensor | None,
    encoding: Lowerable,
    *,
    causal: bool | None = None,
    positions: Positions | Tensor | None = None,
    context: Context | None = None,
    cache: Cache | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
    lse: bool = False,
) -> Call:
    """What a backend is given, by what `posenc.attend` is; where v is None, keys stand for it."""
    values, v = v, k if v is None else v
    check_shapes(q, k, v)
    if not isinstance(dropout, (int, float)) or not 0 <= dropout < 1:
        raise UnsupportedError(f"attend(dropout={dropout!r}): a probability in [0, 1) is needed")
    if cache is not None:
        cache.check(encoding, k.shape[-2])
    if context is not None:
        context = with_payload(encoding, context, q.shape[0], k.shape[-2], cache, positions)
        if cache is not None:
            context = replace(context, own=cache.own(k.shape[-2]))
    lowered = lower_for(q, k, encoding, causal, positions, context, cache)
    if lowered.positions.padded:
        own = None if cache is None else cache.own(k.shape[-2])
        q, k, v = without_padding(q, k, v, lowered.positions, own)
    if lowered.keys_prerotated and cache is None:
        raise PositionsError(
            "these terms rotate the queries' own tokens only, the other keys being rotated in a "
            "cache: pass cache=, or lower them without keys_prerotated=True"
        )
    if cache is not None:
        k, v, lowered = cache.append(k, v, lowered, None if context is None else context.payload)
    check_sizes(lowered.form, q, k, values)
    return Call(q, k, v, lowered, q.shape[-1] ** -0.5 if scale is None else scale, dropout, lse)


def lower_for(
    q: Tensor,
    k: Tensor,
    encoding: Lowerable,
    causal: bool | None = None,
    positions: Positions | Tensor | None = None,
    context: Context | None = None,
    cache: Cache | None = None,
) -> Lowered:
    """Terms for these tensors: made here, or checked to fit them where they come lowered."""
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
            positions = as_positions(positions, q_len, k_len, **place)
            keys_prerotated: bool | Tokens = False
        else:
            told = isinstance(positions, Positions)
            positions = cache.place(new, positions, encoding, q_len=q_len, **place)
            keys_prerotated = cache.policy == "rotated" and q_len == new
            if keys_prerotated and told and not (positions.in_order and positions.unit_step):
                keys_prerotated = fresh_keys(positions, new, cache.own(new))
        lowered = lower(
            encoding,
            positions,
            context=context,
            dtype=arithmetic(q, k),
            keys_prerotated=keys_prerotated,
        )
    batch = lowered.positions.batch
    if batch != 1 and batch != q.shape[0]:
        raise PositionsError(
            f"positions for a batch of {batch}, but q has shape "
            f"{tuple(q.shape)}: give one row, or one per batch entry"
        )
    return lowered
