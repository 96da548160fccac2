"""Attention of terms that are packed once for all layers, where nothing asks for a gradient."""

from typing import Any

import torch
from torch import Tensor

from posenc.native.attention import (
    fill,
    packed_terms,
    packed_tokens,
    readable,
    readable_alone,
    room_for_output,
    rows_contiguous,
    write,
)
from posenc.native.attention_struct import CallStruct, Inputs
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
    own = {name: readable_alone(name, x) for name, x in of_layer.items()}
    for name, x in own.items():
        write(call, name, x)
    fill(call, q, out)
    return out
