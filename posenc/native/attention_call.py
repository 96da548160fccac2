"""The C attention kernels on tensors: what `posenc.native.attention` registers as operators."""

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from posenc.native.attention_struct import CallStruct, Inputs, Steps, address, struct_of
from posenc.native.library import Library
from posenc.native.tables import Table, merged, of_heads, part_of


def forward(library: Library, x: Inputs) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """out (b, h, tq, d_v), the same before rounding or nothing; peak and mass of each row."""
    x = _with_biases(_readable(x))
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
    given: Inputs,
    saved: tuple[Tensor, Tensor, Tensor],
    grad: Tensor,
    wanted: Sequence[bool],
) -> dict[str, Tensor]:
    """Gradients by name from what `forward` returned; `wanted` is of the first fields of Inputs."""
    given = _readable(given)
    x = _with_biases(given)
    want = dict(zip(vars(x), wanted, strict=False))
    grad = _rows_contiguous(grad.to(x.q.dtype))
    exact, peak, mass = (t.contiguous() for t in saved)
    call = struct_of(x)
    call.backward = 1
    call.exact_out, call.peak, call.mass = (t.data_ptr() for t in (exact, peak, mass))
    call.grad_out, call.grad_stride = grad.data_ptr(), Steps(*grad.stride()[:3])
    _share(call, x, library.threads())

    def zeros(table: Tensor | None, is_wanted: bool, dtype: torch.dtype) -> Tensor | None:
        if table is None or not is_wanted:
            return None
        return table.new_zeros(call.slots, *table.shape, dtype=dtype)

    found = {name: t.new_empty(t.shape) for name, t in (("q", x.q), ("k", x.k), ("v", x.v))}
    call.grad_q, call.grad_k, call.grad_v = (t.data_ptr() for t in found.values())
    of_bias = any(want[f"{side}_rows"] or want[f"{side}_bias"] for side, *_ in given.biased())
    slopes = want["past"] or want["future"]
    double, real = torch.float64, x.arithmetic
    slots = {
        "table": zeros(x.table, want["table"] or of_bias, double),
        "past": zeros(x.past, slopes, double),
        "future": zeros(x.future, slopes, double),
        "query_rows": zeros(x.query_rows, want["query_rows"], real),
        "key_rows": zeros(x.key_rows, want["key_rows"], real),
        "value_rows": zeros(x.value_rows, want["value_rows"], real),
    }
    call.grad_table, call.grad_past = address(slots["table"]), address(slots["past"])
    call.grad_future = address(slots["future"])
    call.on_query.grad, call.on_key.grad = address(slots["query_rows"]), address(slots["key_rows"])
    call.on_value.grad = address(slots["value_rows"])
    if want["q_offset"] and x.q_offset is not None:
        # Zero but for rounding, which what sums offsets over all tokens must see cancelled.
        shape = call.chunks, *x.q.shape[:3]
        slots["q_offset"] = x.q.new_zeros(shape, dtype=double)
        call.grad_q_offset = slots["q_offset"].data_ptr()
    if want["k_offset"] and x.k_offset is not None:
        shape = *x.q.shape[:2], x.k.shape[2]
        found["k_offset"] = x.q.new_zeros(shape, dtype=double)
        call.grad_k_offset = found["k_offset"].data_ptr()
    _run(library, call, x.arithmetic)

    for name, t in slots.items():
        if t is not None:
            # Along the first dimension, so in one order; the sum of one slot would be a copy.
            found[name] = t[0] if t.shape[0] == 1 else t.sum(0)
    for name, given_offset in (("q_offset", x.q_offset), ("k_offset", x.k_offset)):
        if given_offset is not None and name in found:
            found[name] = of_heads(found[name], given_offset.shape[0])
    if of_bias:
        _add_biases(given, x.table_zero, want, found)
    return found


def _share(call: CallStruct, x: Inputs, threads: int) -> None:
    """How the backward pass goes to the threads, and how many sums of a table it needs."""
    tasks = x.q.shape[0] * x.k.shape[1]
    call.chunks = _chunks(tasks, threads)
    call.workers = max(1, min(threads, tasks * call.chunks))
    tables = (x.table, x.past, x.future, x.query_rows, x.key_rows, x.value_rows)
    shared = any(t is not None and t.shape[0] < x.q.shape[1] for t in tables)
    alone = call.workers == 1 or (x.q.shape[0] * call.chunks == 1 and not shared)
    call.slots = 1 if alone else call.workers


def _with_biases(x: Inputs) -> Inputs:
    """(q + bias) . row is q . row, and a number for each distance."""
    tables: list[Table] = [] if x.table is None else [(x.table, x.table_zero)]
    for _, rows, bias, zero in x.biased():
        tables.append(((rows @ bias[..., None])[..., 0] * x.scale, zero))
    table = merged(tables)
    if table is None:
        return x
    return replace(x, table=table[0].contiguous(), table_zero=table[1])


def _add_biases(x: Inputs, zero: int, want: dict[str, bool], found: dict[str, Tensor]) -> None:
    """Takes the gradient of the merged table apart into those of its own, of biases and rows."""
    total = found.pop("table")
    if x.table is not None:
        part = part_of(total, zero, x.table.shape[1], x.table_zero)
        found["table"] = of_heads(part, x.table.shape[0])
    for side, rows, bias, own in x.biased():
        part = (part_of(total, zero, rows.shape[1], own) * x.scale).to(rows.dtype)
        if want[f"{side}_bias"]:
            found[f"{side}_bias"] = of_heads((part[:, None] @ rows)[:, 0], bias.shape[0])
        if want[f"{side}_rows"] and rows.shape[0] == 1:
            found[f"{side}_rows"] += part.mT @ bias.expand(part.shape[0], -1)
        elif want[f"{side}_rows"]:
            # In place: a table with a row for each distance may be as large as all of k.
            found[f"{side}_rows"].baddbmm_(part[..., None], bias[:, None].expand(len(rows), 1, -1))


def _chunks(tasks: int, threads: int) -> int:
    """Into how many parts the keys of a head go, so that few heads keep every thread at work."""
    if tasks == 0 or tasks >= 4 * threads:
        return 1
    return next(n for n in range(1, threads + 1) if tasks * n % threads == 0)


def _readable(x: Inputs) -> Inputs:
    """The same tensors, laid out as the kernel reads them."""
    fields: dict[str, Any] = dict(vars(x))
    for name, given in vars(x).items():
        if isinstance(given, Tensor):
            fields[name] = (
                _rows_contiguous(given) if name in ("q", "k", "v") else given.contiguous()
            )
    return Inputs(**fields)


def _rows_contiguous(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 else x.contiguous()


def _run(library: Library, call: CallStruct, arithmetic: torch.dtype) -> None:
    name = "pe_attention_double" if arithmetic == torch.float64 else "pe_attention_float"
    scratch, kernel = getattr(library.kernels, f"{name}_scratch"), getattr(library.kernels, name)
    memory = torch.empty(scratch(ctypes.addressof(call)), dtype=torch.uint8)
    call.memory = memory.data_ptr()
    kernel(ctypes.addressof(call))
