"""What attention is given, declared once: the operators' schema and struct pe_attention follow.

`Inputs` is the list. A field's annotation is its type in the schema, its metadata say which fields
it has in the struct of attention.h, in this order, and whether it may have a gradient.
"""

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import Tensor

_TYPES = {torch.float32: 0, torch.bfloat16: 1, torch.float64: 2}
_SCHEMA: dict[Any, str] = {
    Tensor: "Tensor",
    Tensor | None: "Tensor?",
    int: "SymInt",
    float: "float",
    bool: "bool",
}
Steps = ctypes.c_int64 * 3


def _step(x: Tensor) -> int:
    """Between rows of the batch; 0 where one row is for all: (t,), (1, t) or (1, h, t)."""
    return 0 if x.ndim == 1 or x.shape[0] == 1 else x.stride(0)


# By the end of its name, what a field of the struct says of a tensor, and its type.
_OF_TENSOR: dict[str, tuple[Any, Callable[[Tensor], Any]]] = {
    "": (ctypes.c_void_p, Tensor.data_ptr),
    "_stride": (Steps, lambda x: Steps(*x.stride()[:3])),
    "_step": (ctypes.c_int64, _step),
    "_grad": (ctypes.c_void_p, lambda _: None),
    "_heads": (ctypes.c_int64, lambda x: x.shape[0]),
    "_rows": (ctypes.c_int64, lambda x: x.shape[1]),
}
_NUMBERS: dict[Any, Any] = {int: ctypes.c_int64, bool: ctypes.c_int64, float: ctypes.c_double}
_ROWS = {"fields": ("", "_stride"), "learned": True}
# A table by distance; the number after it is the row of distance 0.
_TABLE = {"fields": ("", "_grad", "_heads", "_rows"), "learned": True}
_SLOPES = {"fields": ("",), "learned": True}
_OFFSETS = {"fields": ("", "_step"), "learned": True}
_TOKENS = {"fields": ("", "_step"), "learned": False}


@dataclass(frozen=True, eq=False)
class Inputs:
    """What posenc::attention takes.

    q, k, v of one dtype; tables (1|h, n), vectors (1|h, n, d) in that of the
    arithmetic; slopes (h) and offsets (1|b, h, t) float64.
    """

    q: Tensor = field(metadata=_ROWS)
    k: Tensor = field(metadata=_ROWS)
    v: Tensor = field(metadata=_ROWS)
    table: Tensor | None = field(default=None, metadata=_TABLE)
    table_zero: int = 0
    past: Tensor | None = field(default=None, metadata=_SLOPES)
    future: Tensor | None = field(default=None, metadata=_SLOPES)
    q_offset: Tensor | None = field(default=None, metadata=_OFFSETS)
    k_offset: Tensor | None = field(default=None, metadata=_OFFSETS)
    on_query: Tensor | None = field(default=None, metadata=_TABLE)
    on_query_zero: int = 0
    on_key: Tensor | None = field(default=None, metadata=_TABLE)
    on_key_zero: int = 0
    on_value: Tensor | None = field(default=None, metadata=_TABLE)
    on_value_zero: int = 0
    q_order: Tensor | None = field(default=None, metadata=_TOKENS)
    q_document: Tensor | None = field(default=None, metadata=_TOKENS)
    k_order: Tensor | None = field(default=None, metadata=_TOKENS)
    k_document: Tensor | None = field(default=None, metadata=_TOKENS)
    valid: Tensor | None = field(default=None, metadata=_TOKENS)
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


NAMES = tuple(given.name for given in fields(Inputs))
LEARNED = tuple(given.name for given in fields(Inputs) if given.metadata.get("learned"))
SCHEMA = ", ".join(f"{_SCHEMA[given.type]} {given.name}" for given in fields(Inputs))


def _layout() -> Iterator[tuple[str, Any]]:
    """The fields of the struct that the inputs have."""
    for given in fields(Inputs):
        if given.type in _NUMBERS:
            yield given.name, _NUMBERS[given.type]
        for end in given.metadata.get("fields", ()):
            yield given.name + end, _OF_TENSOR[end][0]


def _run(kind: Any, names: str) -> tuple[tuple[str, Any], ...]:
    return tuple((name, kind) for name in names.split())


class CallStruct(ctypes.Structure):
    """struct pe_attention: sizes, the inputs, and what the kernel writes."""

    _fields_ = (
        *_run(ctypes.c_int64, "type backward batch heads key_heads queries keys width value_width"),
        *_layout(),
        *_run(ctypes.c_void_p, "out exact_out peak mass grad_out"),
        ("grad_stride", Steps),
        *_run(ctypes.c_void_p, "grad_q grad_k grad_v grad_past grad_future"),
        *_run(ctypes.c_void_p, "grad_q_offset grad_k_offset"),
        *_run(ctypes.c_int64, "workers chunks slots"),
        ("memory", ctypes.c_void_p),
    )


def struct_of(x: Inputs) -> CallStruct:
    batch, heads, queries, width = x.q.shape
    _, key_heads, keys, value_width = x.v.shape
    sizes = (batch, heads, key_heads, queries, keys, width, value_width)
    call = CallStruct(_TYPES[x.q.dtype], 0, *sizes)
    for given in fields(x):
        value = getattr(x, given.name)
        if isinstance(value, Tensor):
            for end in given.metadata["fields"]:
                setattr(call, given.name + end, _OF_TENSOR[end][1](value))
        elif value is not None:
            setattr(call, given.name, value)
    return call
