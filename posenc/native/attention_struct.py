"""struct pe_attention of attention.h, field by field, and how it is filled from tensors."""

import ctypes
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

_TYPES = {torch.float32: 0, torch.bfloat16: 1, torch.float64: 2}
Steps = ctypes.c_int64 * 3


def _fields(*runs: str) -> list[tuple[str, Any]]:
    """Fields in order; the first letter of a run tells their type."""
    types = {"p": ctypes.c_void_p, "i": ctypes.c_int64, "d": ctypes.c_double, "s": Steps}
    split = ((run[0], run[1:].split()) for run in runs)
    return [(name, types[kind]) for kind, names in split for name in names]


class _Gather(ctypes.Structure):
    _fields_ = _fields("p weight grad", "i heads rows zero")


class _Tokens(ctypes.Structure):
    _fields_ = _fields("p order document", "i order_step document_step")


class CallStruct(ctypes.Structure):
    _fields_ = (
        *_fields("i type backward batch heads key_heads queries keys width value_width"),
        *_fields("d scale", "p q k v", "s q_stride k_stride v_stride", "p out exact_out peak mass"),
        *_fields("p table", "i table_heads table_rows table_zero", "p past future"),
        *_fields("p q_offset k_offset", "i q_offset_step k_offset_step"),
        *((name, _Gather) for name in ("on_query", "on_key", "on_value")),
        *((name, _Tokens) for name in ("q_tokens", "k_tokens")),
        *_fields("p valid", "i valid_step causal window sinks prefix"),
        *_fields("p grad_out", "s grad_stride", "p grad_q grad_k grad_v"),
        *_fields("p grad_table grad_past grad_future grad_q_offset grad_k_offset"),
        *_fields("i workers chunks slots", "p memory"),
    )


@dataclass(frozen=True, eq=False)
class Inputs:
    """What posenc::attention takes, in the order of its schema (`posenc.native.attention`).

    q, k, v of one dtype; table, rows and their biases (1|h, d) in that of the arithmetic; slopes
    and offsets float64.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    table: Tensor | None = None
    past: Tensor | None = None
    future: Tensor | None = None
    q_offset: Tensor | None = None
    k_offset: Tensor | None = None
    query_rows: Tensor | None = None
    key_rows: Tensor | None = None
    value_rows: Tensor | None = None
    query_bias: Tensor | None = None
    key_bias: Tensor | None = None
    q_order: Tensor | None = None
    k_order: Tensor | None = None
    q_document: Tensor | None = None
    k_document: Tensor | None = None
    valid: Tensor | None = None
    table_zero: int = 0
    query_zero: int = 0
    key_zero: int = 0
    value_zero: int = 0
    scale: float = 1.0
    causal: bool = False
    window: int = -1
    sinks: int = 0
    prefix: int = 0
    # Whether a gradient may be asked for, which needs the output before it is rounded.
    learns: bool = False

    @property
    def arithmetic(self) -> torch.dtype:
        return torch.float64 if self.q.dtype == torch.float64 else torch.float32

    @property
    def keeps_exact(self) -> bool:
        """Whether the output is kept as it was before rounding too."""
        return self.learns and self.q.dtype != self.arithmetic

    def biased(self) -> list[tuple[str, Tensor, Tensor, int]]:
        """(side, rows, bias, zero) of the tables of vectors that q + bias, or k + bias, meet."""
        sides = (
            ("query", self.query_rows, self.query_bias, self.query_zero),
            ("key", self.key_rows, self.key_bias, self.key_zero),
        )
        return [
            (side, rows, bias, zero)
            for side, rows, bias, zero in sides
            if rows is not None and bias is not None
        ]


def struct_of(x: Inputs) -> CallStruct:
    batch, heads, queries, width = x.q.shape
    _, key_heads, keys, value_width = x.v.shape
    call = CallStruct(
        type=_TYPES[x.q.dtype],
        batch=batch,
        heads=heads,
        key_heads=key_heads,
        queries=queries,
        keys=keys,
        width=width,
        value_width=value_width,
        scale=x.scale,
        q=x.q.data_ptr(),
        k=x.k.data_ptr(),
        v=x.v.data_ptr(),
        q_stride=Steps(*x.q.stride()[:3]),
        k_stride=Steps(*x.k.stride()[:3]),
        v_stride=Steps(*x.v.stride()[:3]),
        past=address(x.past),
        future=address(x.future),
        q_offset=address(x.q_offset),
        k_offset=address(x.k_offset),
        q_offset_step=_step(x.q_offset),
        k_offset_step=_step(x.k_offset),
        on_query=_gather(x.query_rows, x.query_zero),
        on_key=_gather(x.key_rows, x.key_zero),
        on_value=_gather(x.value_rows, x.value_zero),
        q_tokens=_tokens(x.q_order, x.q_document),
        k_tokens=_tokens(x.k_order, x.k_document),
        valid=address(x.valid),
        valid_step=_step(x.valid),
        causal=x.causal,
        window=x.window,
        sinks=x.sinks,
        prefix=x.prefix,
    )
    if x.table is not None:
        call.table, call.table_zero = x.table.data_ptr(), x.table_zero
        call.table_heads, call.table_rows = x.table.shape
    return call


def _gather(rows: Tensor | None, zero: int) -> _Gather:
    if rows is None:
        return _Gather()
    return _Gather(rows.data_ptr(), None, *rows.shape[:2], zero)


def _tokens(order: Tensor | None, document: Tensor | None) -> _Tokens:
    return _Tokens(address(order), address(document), _step(order), _step(document))


def address(x: Tensor | None) -> int | None:
    return None if x is None else x.data_ptr()


def _step(x: Tensor | None) -> int:
    """Between rows of the batch; 0 where one row is for all: (t,), (1, t) or (1, h, t)."""
    return 0 if x is None or x.ndim == 1 or x.shape[0] == 1 else x.stride(0)
