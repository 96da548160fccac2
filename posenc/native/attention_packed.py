"""Attention of terms that are packed once for all layers, where nothing asks for a gradient."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from posenc.native.attention import (
    HELD,
    complete,
    fill,
    packed_terms,
    packed_tokens,
    readable,
    room_for_output,
    rows_contiguous,
    run,
    scratch_of,
)
from posenc.native.attention_struct import BY_ROWS, KINDS, CallStruct, Inputs, Steps
from posenc.torch_modes import plain, threads


class Packed(NamedTuple):
    """The inputs but q, k and v as the kernel reads them, and what `words` holds addresses of.

    terms  by the names of `Inputs`
    """

    words: bytes
    terms: dict[str, Any]

    def attend(self, q: Tensor, k: Tensor, v: Tensor, of_layer: dict[str, Any]) -> Tensor:
        """The output (b, h, tq, d_v), for what each layer has of its own."""
        out = room_for_output(q, v)
        if not q.stride(3) == k.stride(3) == v.stride(3) == 1:
            q, k, v = (rows_contiguous(x) for x in (q, k, v))
        call = self._call(q, k, v)
        # The kernel reads the memory of these until it returns.
        own = {name: _readable(name, x) for name, x in of_layer.items()}
        for name, x in own.items():
            _write(call, name, x)
        fill(call, q, out)
        return out

    def attending(
        self, q: Tensor, k: Tensor, v: Tensor
    ) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
        """The same for other tensors of these shapes and dtypes, whose layers have nothing."""
        q, k, v = (rows_contiguous(x) for x in (q, k, v))
        steps, workers = (q.stride(), k.stride(), v.stride()), threads()
        call = self._call(q, k, v)
        complete(call, q, room_for_output(q, v))
        size, alike = scratch_of(call, q), bytes(call)

        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            if (q.stride(), k.stride(), v.stride()) != steps or threads() != workers:
                return self.attend(q, k, v, {})
            # Of its own, for calls may run beside each other.
            out, call = room_for_output(q, v), CallStruct.from_buffer_copy(alike)
            call.q, call.k, call.v = q.data_ptr(), k.data_ptr(), v.data_ptr()
            call.out = out.data_ptr()
            run(call, q, size, own_rows=True)
            return out

        return attend

    def _call(self, q: Tensor, k: Tensor, v: Tensor) -> CallStruct:
        return CallStruct.from_buffer_copy(packed_tokens(q, k, v) + self.words)


def packed(terms: dict[str, Any]) -> Packed | None:
    """These inputs packed; None where something watches their tensors."""
    tensors = [x for x in terms.values() if isinstance(x, Tensor)]
    if torch.compiler.is_compiling() or not plain(*tensors):
        return None
    nothing: Any = None
    inputs = readable(Inputs(nothing, nothing, nothing, **terms))
    return Packed(packed_terms(inputs), {name: getattr(inputs, name) for name in terms})


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
