"""What attention is given, declared once: the operators' schema and struct pe_attention follow.

`Inputs` is the list. A field's annotation says what it is in the schema, which fields it has in the
struct of attention.h, in this order, and whether it may have a gradient.
"""

import ctypes
from collections.abc import Callable, Iterator
from struct import Struct
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints

from torch import Tensor

_NUMBERS: dict[Any, Any] = {int: ctypes.c_int64, bool: ctypes.c_int64, float: ctypes.c_double}
Steps = ctypes.c_int64 * 3
# By the end of its name, the type of a field that says something of a tensor.
_OF_TENSOR: dict[str, Any] = {
    "": ctypes.c_void_p,
    "_stride": Steps,
    "_step": ctypes.c_int64,
    "_grad": ctypes.c_void_p,
    "_heads": ctypes.c_int64,
    "_rows": ctypes.c_int64,
    "_steps": ctypes.c_int64,
    "_units": ctypes.c_int64,
}


class _Kind(NamedTuple):
    """Of a tensor: its fields in the struct, and whether it may have a gradient."""

    fields: tuple[str, ...]
    learned: bool = True


Rows = Annotated[Tensor, _Kind(("", "_stride"))]
FarRows = Annotated[Tensor | None, _Kind(("", "_stride"))]
# The number after a table is its row of distance 0.
Table = Annotated[Tensor | None, _Kind(("", "_grad", "_heads", "_rows"))]
Slopes = Annotated[Tensor | None, _Kind(("",))]
Offsets = Annotated[Tensor | None, _Kind(("", "_step"))]
ByCount = Annotated[Tensor | None, _Kind(("", "_grad", "_steps"))]
# With as many units as it has columns.
OfUnits = Annotated[Tensor | None, _Kind(("", "_units"))]
OfTokens = Annotated[Tensor | None, _Kind(("", "_step"), learned=False)]
Seed = Annotated[Tensor | None, _Kind(("",), learned=False)]


class Inputs(NamedTuple):
    """What posenc::attention takes.

    q, k, v of one dtype; tables and grid (1|h, n), vectors (1|h, n, d) and by_count
    (b, h, tq, steps) in that of the arithmetic; slopes and sink (h), offsets (1|b, h, t) and a
    network's tensors float64, by_distance (1, n) and output_weight (h, u); seed () int64, where
    dropout is above 0.
    """

    q: Rows
    k: Rows
    v: Rows
    # What stands for q and k where a key is `zone` tokens or more behind.
    q_far: FarRows = None
    k_far: FarRows = None
    zone: int = 0
    table: Table = None
    table_zero: int = 0
    past: Slopes = None
    future: Slopes = None
    q_offset: Offsets = None
    k_offset: Offsets = None
    on_query: Table = None
    on_query_zero: int = 0
    on_key: Table = None
    on_key_zero: int = 0
    on_value: Table = None
    on_value_zero: int = 0
    by_count: ByCount = None
    network_by_distance: Table = None
    network_by_distance_zero: int = 0
    network_by_query: Offsets = None
    network_hidden_weight: Slopes = None
    network_hidden_bias: Slopes = None
    network_output_weight: OfUnits = None
    network_output_bias: Slopes = None
    grid_table: Table = None
    grid_table_zero: int = 0
    grid_q_index: OfTokens = None
    grid_k_index: OfTokens = None
    sink: Slopes = None
    q_order: OfTokens = None
    q_document: OfTokens = None
    k_order: OfTokens = None
    k_document: OfTokens = None
    valid: OfTokens = None
    seed: Seed = None
    scale: float = 1.0
    causal: bool = False
    window: int = -1
    sinks: int = 0
    prefix: int = 0
    chunk: int = 0
    dropout: float = 0.0
    # Whether a gradient may be asked for, which needs the output before it is rounded.
    learns: bool = False


_HINTS = get_type_hints(Inputs, include_extras=True)
KINDS: dict[str, _Kind] = {
    name: get_args(hint)[1] for name, hint in _HINTS.items() if hint not in _NUMBERS
}
LEARNED = tuple(name for name, kind in KINDS.items() if kind.learned)
# Read by rows, so that other strides may be any.
BY_ROWS = tuple(name for name, kind in KINDS.items() if "_stride" in kind.fields)
NETWORK = tuple(name for name in LEARNED if name.startswith("network_"))
_IN_SCHEMA = {Rows: "Tensor", int: "SymInt", bool: "bool", float: "float"}
SCHEMA = ", ".join(f"{_IN_SCHEMA.get(hint, 'Tensor?')} {name}" for name, hint in _HINTS.items())


def _layout() -> Iterator[tuple[str, Any]]:
    """The fields of the struct that the inputs have."""
    for name, hint in _HINTS.items():
        if hint in _NUMBERS:
            yield name, _NUMBERS[hint]
        else:
            yield from ((name + end, _OF_TENSOR[end]) for end in KINDS[name].fields)


def _run(kind: Any, names: str) -> tuple[tuple[str, Any], ...]:
    return tuple((name, kind) for name in names.split())


def _gradients_of(names: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for name in names:
        yield f"{name}_grad", ctypes.c_void_p
        yield f"{name}_grad_stride", Steps


_SIZES = _run(ctypes.c_int64, "type backward batch heads key_heads queries keys width value_width")


class CallStruct(ctypes.Structure):
    """struct pe_attention: sizes, the inputs, and what the kernel writes."""

    _fields_ = (
        *_SIZES,
        *_layout(),
        *_run(ctypes.c_void_p, "out exact_out"),
        ("out_stride", Steps),
        *_run(ctypes.c_void_p, "peak mass grad_out"),
        ("grad_stride", Steps),
        ("grad_mass", ctypes.c_void_p),
        *_gradients_of(BY_ROWS),
        *_run(ctypes.c_void_p, "past_grad future_grad"),
        *_run(ctypes.c_void_p, "q_offset_grad k_offset_grad"),
        *_run(ctypes.c_void_p, " ".join(f"{name}_grad" for name in NETWORK[1:])),
        *_run(ctypes.c_void_p, "sink_grad"),
        *_run(ctypes.c_int64, "workers chunks slots in_far"),
        ("memory", ctypes.c_void_p),
    )


def _packing() -> tuple[Callable[..., bytes], Callable[..., bytes]]:
    """What packs the sizes with q, k and v, and what packs the other inputs: numbers one after
    another, and zeros for the rest.
    """
    codes = {Steps: "3q", ctypes.c_double: "d"}
    inputs = [codes.get(kind, "q") for _, kind in _layout()]
    of_rows = 3 * len(KINDS["q"].fields)
    tokens, terms = (Struct("=" + "".join(part)) for part in (
        ["q"] * len(_SIZES) + inputs[:of_rows], inputs[of_rows:]
    ))  # fmt: skip
    rest = ctypes.sizeof(CallStruct) - tokens.size - terms.size
    return tokens.pack, Struct(f"{terms.format}{rest}x").pack


# All at once, for to set fields one by one takes longer than the kernel on a few tokens; in two
# parts, for the terms are the same in every layer.
PACK_TOKENS, PACK_TERMS = _packing()
