"""The C attention kernels on tensors: what `posenc.native.attention` registers as operators."""

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from posenc.native.attention_struct import LEARNED, NAMES, CallStruct, Inputs, Steps, struct_of
from posenc.native.library import Library


def forward(library: Library, x: Inputs) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """out (b, h, tq, d_v), the same before rounding or nothing; peak and mass of each row."""
    x = _readable(x)
    batch, heads, queries = x.q.shape[:3]
    out = x.q.new_empty(batch, heads, queries, x.v.shape[3])
    peak, mass = (x.q.new_empty(batch, heads, queries, dtype=x.arithmetic) for _ in range(2))
    exact = x.q.new_empty(out.shape if x.keeps_exact else 0, dtype=x.arithmetic)
    call = struct_of(x)
    call.out, call.peak, call.mass = out.data_ptr(), peak.data_ptr(), mass.data_ptr()
    call.exact_out = exact.data_ptr() if x.keeps_exact else None
    call.workers = max(1, min(library.threads(), batch * heads * -(-queries // 256)))
    call.chunks = call.slots = 1
    _run(library, call, x.arithmetic)
    return out, exact, peak, mass


def backward(
    library: Library,
    x: Inputs,
    saved: tuple[Tensor, Tensor, Tensor],
    grad: Tensor,
    wanted: Sequence[bool],
) -> list[Tensor]:
    """The gradients that are wanted of `LEARNED`, in its order, from what `forward` kept."""
    x = _readable(x)
    want = {name for name, is_wanted in zip(LEARNED, wanted, strict=True) if is_wanted}
    grad = _rows_contiguous(grad.to(x.q.dtype))
    exact, peak, mass = (t.contiguous() for t in saved)
    call = struct_of(x)
    call.backward = 1
    call.exact_out, call.peak, call.mass = (t.data_ptr() for t in (exact, peak, mass))
    call.grad_out, call.grad_stride = grad.data_ptr(), Steps(*grad.stride()[:3])
    _share(call, x, library.threads())

    found = {name: t.new_empty(t.shape) for name, t in (("q", x.q), ("k", x.k), ("v", x.v))}
    sums = _sums(x, call, want | ({"past", "future"} if want & {"past", "future"} else set()))
    for name, t in (found | sums).items():
        place = f"{name}_grad" if hasattr(call, f"{name}_grad") else f"grad_{name}"
        setattr(call, place, t.data_ptr())
    _run(library, call, x.arithmetic)

    for name, t in sums.items():
        # Along the first dimension, so in one order; the sum of one slot would be a copy.
        total, given = t[0] if t.shape[0] == 1 else t.sum(0), getattr(x, name)
        alike = given.shape[0] == 1 and total.shape[0] > 1
        found[name] = (total.sum(0, keepdim=True) if alike else total).to(given.dtype)
    return [found[name] for name in LEARNED if name in want]


def _sums(x: Inputs, call: CallStruct, want: set[str]) -> dict[str, Tensor]:
    """Zeros that the gradients of terms are added to, for each slot or each chunk of keys."""
    double, vectors = torch.float64, x.arithmetic
    # The gradient of what queries add is zero but for rounding, and what sums offsets over all
    # tokens must see it cancelled.
    kinds = {
        "table": (call.slots, double, x.table),
        "past": (call.slots, double, x.past),
        "future": (call.slots, double, x.future),
        "on_query": (call.slots, vectors, x.on_query),
        "on_key": (call.slots, vectors, x.on_key),
        "on_value": (call.slots, vectors, x.on_value),
        "q_offset": (call.chunks, double, x.q_offset),
        "k_offset": (1, double, x.k_offset),
    }
    sums = {}
    for name, (count, dtype, given) in kinds.items():
        if given is not None and name in want:
            shape = (call.batch, *given.shape[1:]) if name.endswith("offset") else given.shape
            sums[name] = given.new_zeros(count, *shape, dtype=dtype)
    return sums


def _share(call: CallStruct, x: Inputs, threads: int) -> None:
    """How the backward pass goes to the threads, and how many sums of a table it needs."""
    tasks = x.q.shape[0] * x.k.shape[1]
    call.chunks = _chunks(tasks, threads)
    call.workers = max(1, min(threads, tasks * call.chunks))
    tables = (x.table, x.past, x.future, x.on_query, x.on_key, x.on_value)
    shared = any(t is not None and t.shape[0] < x.q.shape[1] for t in tables)
    alone = call.workers == 1 or (x.q.shape[0] * call.chunks == 1 and not shared)
    call.slots = 1 if alone else call.workers


def _chunks(tasks: int, threads: int) -> int:
    """Into how many parts the keys of a head go, so that few heads keep every thread at work."""
    if tasks == 0 or tasks >= 4 * threads:
        return 1
    return next(n for n in range(1, threads + 1) if tasks * n % threads == 0)


def _readable(x: Inputs) -> Inputs:
    """The same tensors, laid out as the kernel reads them."""
    laid_out: dict[str, Any] = {}
    for name in NAMES:
        tensor = getattr(x, name)
        if isinstance(tensor, Tensor) and not tensor.is_contiguous():
            rows = name in ("q", "k", "v")
            laid_out[name] = _rows_contiguous(tensor) if rows else tensor.contiguous()
    return replace(x, **laid_out) if laid_out else x


def _rows_contiguous(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 else x.contiguous()


def _run(library: Library, call: CallStruct, arithmetic: torch.dtype) -> None:
    name = "pe_attention_double" if arithmetic == torch.float64 else "pe_attention_float"
    scratch, kernel = getattr(library.kernels, f"{name}_scratch"), getattr(library.kernels, name)
    memory = torch.empty(scratch(ctypes.addressof(call)), dtype=torch.uint8)
    call.memory = memory.data_ptr()
    kernel(ctypes.addressof(call))
