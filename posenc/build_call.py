"""From the arguments of `attend` to one checked Call: shapes, positions, terms, cache, context."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from posenc.backends.call import Call
from posenc.caches.cache import Cache
from posenc.encoding import Context, Encoding
from posenc.equation import arithmetic
from posenc.errors import PositionsError, ShapeError, UnsupportedError
from posenc.lowering import Lowerable, Lowered, check_fits, flatten, lower
from posenc.normal_form.normalise import check_heads
from posenc.positions import Positions, as_positions

_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def build_call(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    encoding: Lowerable,
    *,
    causal: bool | None = None,
    positions: Positions | Tensor | None = None,
    context: Context | None = None,
    cache: Cache | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
) -> Call:
    """What a backend is given; arguments and errors are those of `posenc.attend`."""
    check_shapes(q, k, v)
    if not 0.0 <= dropout < 1.0:
        raise UnsupportedError(f"attend(dropout={dropout}): a probability in [0, 1) is needed")
    if cache is not None:
        cache.check(encoding, k.shape[-2])
    if context is not None:
        context = _with_payload(encoding, context, q.shape[0], k.shape[-2], cache)
        if cache is not None:
            context = replace(context, own=cache.own(k.shape[-2]))
    lowered = lower_for(q, k, encoding, causal, positions, context, cache)
    k, v = _without_padding(k, v, lowered.positions, cache is not None)
    if lowered.keys_prerotated and cache is None:
        raise PositionsError(
            "these terms rotate the queries' own tokens only, the other keys being rotated in a "
            "cache: pass cache=, or lower them without keys_prerotated=True"
        )
    if cache is not None:
        k, v, lowered = cache.append(k, v, lowered, None if context is None else context.payload)
    check_heads(lowered.form, q.shape[1])
    return Call(q, k, v, lowered, q.shape[-1] ** -0.5 if scale is None else scale, dropout)


def _without_padding(
    k: Tensor, v: Tensor, positions: Positions, has_cache: bool
) -> tuple[Tensor, Tensor]:
    """New keys and values, zero where they are padding: a weight of zero would let NaN through.

    Here, where they enter, so that no step of decoding copies its cache.
    """
    valid = positions.keys.valid
    if has_cache:
        valid = positions.queries.valid if positions.q_len == k.shape[2] else None
    if valid is None or valid.shape[-1] != k.shape[2]:
        return k, v
    padding = ~valid[:, None, :, None]
    return k.masked_fill(padding, 0.0), v.masked_fill(padding, 0.0)


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
            keys_prerotated = False
        else:
            positions = cache.place(new, positions, encoding, q_len=q_len, **place)
            keys_prerotated = cache.policy == "rotated" and q_len == new
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


def _with_payload(
    encoding: Lowerable, context: Context, batch: int, new: int, cache: Cache | None
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
        payload = _payload(encoding, context.x)
        _check_told(payload, new)
        payload = payload if cache is None else cache.payload_with(payload)
    _check_told(payload, new if cache is None else cache.keys(new))
    return replace(context, payload=payload)


def _check_told(payload: Tensor | None, keys: int) -> None:
    if payload is not None and payload.shape[-1] != keys:
        raise ShapeError(
            f"the context tells of {payload.shape[-1]} tokens, but there are {keys} keys: give "
            "Context(x=...) of every key or, while decoding, of the new tokens with the cache that "
            "all tokens before them went through, by their encoding and not by lowered terms"
        )


def _payload(encoding: Lowerable, x: Tensor) -> Tensor | None:
    if isinstance(encoding, Lowered):
        return None
    made = [part.payload(x) for part in flatten(encoding) if isinstance(part, Encoding)]
    made = [payload for payload in made if payload is not None]
    if len(made) > 1:
        raise UnsupportedError("two encodings of one call keep a payload per key: choose one")
    return made[0] if made else None


def check_shapes(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Raise ShapeError unless these are queries, keys and values of one attention."""
    shapes = f"q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}"
    if not q.ndim == k.ndim == v.ndim == 4:
        raise ShapeError(f"(batch, heads, tokens, head dimension) is needed, got {shapes}")
    if not (q.is_floating_point() and k.is_floating_point() and v.is_floating_point()):
        raise ShapeError(f"floating-point tensors are needed, got {q.dtype}, {k.dtype}, {v.dtype}")
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.dtype not in _DTYPES:
            raise ShapeError(
                f"{name} is {x.dtype}, in which nothing can be added up: give float16, bfloat16, "
                f"float32 or float64, {name}.to(torch.bfloat16)"
            )
        if x.shape[1] == 0 or x.shape[3] == 0:
            raise ShapeError(f"at least one head of one dimension is needed, got {shapes}")
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
