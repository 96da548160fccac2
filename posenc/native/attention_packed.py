"""Attention of terms that are packed once for all layers, where nothing asks for a gradient."""

from typing import Any

import torch
from torch import Tensor

from posenc.native.attention import (
    HELD,
    fill,
    packed_terms,
    packed_tokens,
    readable,
    room_for_output,
    rows_contiguous,
)
from posenc.native.attention_struct import BY_ROWS, KINDS, CallStruct, Inputs, Steps
from posenc.torch_modes import plain


def packed(terms: dict[str, Any]) -> tuple[bytes | None, dict[str, Any]]:
    """The inputs but q, k and v, by name, as the kernel reads them from the memory of the tensors
    that are returned beside; None where something watches these.
    """
    tensors = [x for x in terms.values() if isinstance(x, Tensor)]
    if torch.compiler.is_compiling() or not plain(*tensors):
        return None, terms
    nothing: Any = None
    inputs = readable(Inputs(nothing, nothing, nothing, **terms))
    return packed_terms(inputs), {name: getattr(inputs, name) for name in terms}


def attend_packed(
    terms: bytes, q: Tensor, k: Tensor, v: Tensor, of_layer: dict[str, Any]
) -> Tensor:
    """The output for these terms, (b, h, tq, d_v), and for what each layer has of its own."""
    out = room_for_output(q, v)
    if not q.stride(3) == k.stride(3) == v.stride(3) == 1:
        q, k, v = (rows_contiguous(x) for x in (q, k, v))
    call = CallStruct.from_buffer_copy(packed_tokens(q, k, v) + terms)
    # The kernel reads the memory of these until it returns.
    own = {name: _readable(name, x) for name, x in of_layer.items()}
    for name, x in own.items():
        _write(call, name, x)
    fill(call, q, out)
    return out


def _readable(name: str, x: Any) -> Any:
    """One input as the kernel reads it."""
    if name not in KINDS:
        return x
    return rows_contiguous(x) if name in BY_ROWS else x.contiguous()


def _write(call: CallStruct, name: str, x: Any) -> None:
    """Write one input, which is readable, beside those that are packed."""
    if name not in KINDS:
        setattr(call, name, x)
        return
    fields, (address, *rest) = KINDS[name].fields, HELD[KINDS[name].fields](x)
    setattr(call, name, address)
    if name in BY_ROWS:
        rest = [Steps(*rest)]
    for end, value in zip(fields[1:], rest, strict=True):
        setattr(call, name + end, value)
