"""How the tensors of attention are laid out in memory, and what the kernel is told of that."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from posenc.native.attention_struct import BY_ROWS, KINDS, PACK_TERMS, PACK_TOKENS, Inputs
from posenc.native.library import TYPES

# What the fields of a tensor hold, by the ends of their names. A step is between rows of the batch:
# 0 where one row is for all, (t,), (1, t) or (1, h, t).
_HELD: dict[tuple[str, ...], Callable[[Tensor], tuple[int, ...]]] = {
    ("", "_stride"): lambda x: (x.data_ptr(), *x.stride()[:3]),
    ("", "_grad", "_heads", "_rows"): lambda x: (x.data_ptr(), 0, *x.shape[:2]),
    ("", "_grad", "_steps"): lambda x: (x.data_ptr(), 0, x.shape[3]),
    ("",): lambda x: (x.data_ptr(),),
    ("", "_units"): lambda x: (x.data_ptr(), x.shape[1]),
    ("", "_step"): lambda x: (x.data_ptr(), x.stride(0) if x.ndim > 1 and x.shape[0] > 1 else 0),
}
# Of each input but q, k and v what its fields hold, None for a number, and what they do where no
# tensor is given.
_FIELDS = tuple(
    (_HELD[KINDS[name].fields], (0,) * (4 if name in BY_ROWS else len(KINDS[name].fields)))
    if name in KINDS
    else (None, ())
    for name in Inputs._fields[3:]
)
PLACES = tuple(place for place, name in enumerate(Inputs._fields) if name in KINDS)
_ROWS = tuple(place for place in PLACES if Inputs._fields[place] in BY_ROWS)
_WHOLE = tuple(place for place in PLACES if place not in _ROWS)


def room_for_output(q: Tensor, v: Tensor) -> Tensor:
    """(b, h, tq, d_v), with heads inside of tokens where q has them so.

    A layer that turned them to the outside by a view then turns them back by one.
    """
    batch, heads, tokens, _ = q.shape
    _, by_head, by_token, _ = q.stride()
    if by_head < by_token:
        return q.new_empty(batch, tokens, heads, v.shape[3]).transpose(1, 2)
    return q.new_empty(batch, heads, tokens, v.shape[3])


def packed_tokens(q: Tensor, k: Tensor, v: Tensor) -> bytes:
    """The sizes of a call with q, k and v, whose rows are contiguous."""
    batch, heads, queries, width = q.shape
    _, key_heads, keys, value_width = v.shape
    sizes = (batch, heads, key_heads, queries, keys, width, value_width)
    (q0, q1, q2, _), (k0, k1, k2, _), (v0, v1, v2, _) = q.stride(), k.stride(), v.stride()
    rows = (q.data_ptr(), q0, q1, q2, k.data_ptr(), k0, k1, k2, v.data_ptr(), v0, v1, v2)
    return PACK_TOKENS(TYPES[q.dtype], 0, *sizes, *rows)


def packed_terms(x: Inputs) -> bytes:
    """All inputs but q, k and v, which are readable."""
    values: tuple[Any, ...] = x
    fields: list[Any] = []
    for value, (held, absent) in zip(values[3:], _FIELDS, strict=True):
        if value is None:
            fields += absent
        elif held is None:
            fields.append(value)
        else:
            fields += held(value)
    return PACK_TERMS(*fields)


def readable(x: Inputs) -> Inputs:
    """The same tensors, laid out as the kernel reads them."""
    values: tuple[Any, ...] = x
    by_rows = [p for p in _ROWS if values[p] is not None and values[p].stride(3) != 1]
    whole = [p for p in _WHOLE if values[p] is not None and not values[p].is_contiguous()]
    laid_out = {Inputs._fields[place]: values[place].contiguous() for place in (*by_rows, *whole)}
    return x._replace(**laid_out) if laid_out else x


def rows_contiguous(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 else x.contiguous()
