"""Fused attention in C on CPUs: linear in memory, training included, with any term of distances.

Tables, slopes and offsets are added tile by tile, tables of vectors are met by skewed products,
and tiles that masks rule out are skipped. Half precision is computed in float32. `auto` takes it
for what would else need a matrix of scores; plain attention and short queries stay with SDPA.
"""

from typing import Any

import torch
from torch import Tensor

from posenc.backends.call import Call
from posenc.backends.turn import operands
from posenc.eager import transformed
from posenc.equation import (
    arithmetic,
    mask_rules,
)
from posenc.native.library import LIBRARY
from posenc.native.tables import Table, merged
from posenc.terms import (
    CountTable,
    DenseBias,
    DistanceTable,
    GatherTable,
    Offset,
    Prefix,
    Rotate,
    Scale,
    Sink,
    Slope,
    Term,
    ValueTable,
    Window,
    Zones,
)

# A window wider than any two tokens are apart, whose sums with their distance are still numbers.
_FARTHEST = 2**62
# With fewer queries, packing the keys costs more than what the kernel saves.
_FEW_QUERIES = 8
# Keys from which on that is paid for where SDPA is slow.
_SOME_KEYS = 256


def refusal(call: Call) -> str | None:
    if isinstance(LIBRARY, str):
        return LIBRARY
    if call.q.device.type != "cpu":
        return f"it runs on CPUs, and q is on {call.q.device.type}"
    if torch.onnx.is_in_onnx_export():
        return "ONNX knows no operator of its kind"
    if not torch.compiler.is_compiling() and transformed():
        return "transforms of torch.func and forward-mode gradients need PyTorch's own operators"
    if call.dropout:
        return "it has no dropout"
    return _terms_refusal(call.lowered.terms) or _positions_refusal(call)


def passed_over(call: Call) -> str | None:
    """Why `auto` leaves a call that it can compute to the next."""
    # A graph would be bound to the lengths that give the same answer.
    few = not torch.compiler.is_compiling() and call.q.shape[2] < _FEW_QUERIES
    if few and not _decodes_fast(call):
        return f"fewer than {_FEW_QUERIES} queries are left to others, whose masks are small"
    if all(isinstance(term, (Rotate, Scale)) for term in call.lowered.terms):
        positions = call.lowered.positions
        if positions.in_order and positions.q_len == positions.k_len:
            return "attention without bias and mask is left to SDPA"
    return None


def _decodes_fast(call: Call) -> bool:
    """Whether a few queries meet what is slow elsewhere: far keys, or bfloat16."""
    terms, keys = call.lowered.terms, call.k.shape[2]
    if any(isinstance(term, Window) and 4 * term.width <= keys for term in mask_rules(terms)):
        return True
    # Query heads that share keys are rows of one product in SDPA, which then is fast.
    shares = call.k.shape[1] < call.q.shape[1]
    slow = not shares or any(isinstance(term, ValueTable) for term in terms)
    return slow and keys >= _SOME_KEYS and call.q.dtype == call.k.dtype == torch.bfloat16


def attend(call: Call) -> Tensor:
    # Here, for its operators are registered on import.
    from posenc.native.attention import attend as kernel
    from posenc.native.attention_struct import Inputs

    terms, positions = call.lowered.terms, call.lowered.positions
    dtype = arithmetic(call.q, call.k, call.v)
    q, k, v, scale = operands(call, half=torch.float32)
    rules = mask_rules(terms)
    widths = [rule.width for rule in rules if isinstance(rule, Window)]
    inputs = Inputs(
        q,
        k,
        v,
        **_biases(terms, scale, dtype),
        **_rows(terms, dtype),
        q_order=positions.queries.order,
        k_order=positions.keys.order,
        q_document=positions.queries.document,
        k_document=positions.keys.document,
        valid=positions.keys.valid,
        scale=scale,
        causal=positions.causal,
        window=min(max(0, min(widths)), _FARTHEST) if widths else -1,
        sinks=max([0, *(rule.count for rule in rules if isinstance(rule, Sink))]),
        prefix=max([0, *(rule.count for rule in rules if isinstance(rule, Prefix))]),
    )
    return kernel(inputs).to(call.v.dtype)


def _terms_refusal(terms: tuple[Term, ...]) -> str | None:
    sides = [term.side for term in terms if isinstance(term, GatherTable)]
    turned = any(isinstance(term, Rotate) for term in terms)
    by_query = any(isinstance(term, Scale) and isinstance(term.factor, Tensor) for term in terms)
    for term in terms:
        if isinstance(term, (DenseBias, CountTable)):
            return f"{type(term).__name__} is no function of the distance alone"
        if isinstance(term, Zones):
            return "Zones turn queries and keys twice"
        if isinstance(term, Rotate) and not (term.q_log_scale is term.k_log_scale is None):
            return "factors that grow with position need float64 scores"
        if isinstance(term, GatherTable) and turned:
            return "GatherTable reads q and k as given, beside a Rotate that turns them"
        inside = isinstance(term, (DistanceTable, Slope)) and term.inside
        inside = inside or (
            isinstance(term, GatherTable) and (term.side == "k" or term.bias is not None)
        )
        if inside and by_query:
            return f"a {type(term).__name__} inside a scale that differs by query"
    values = sum(isinstance(term, ValueTable) for term in terms)
    if values > 1 or len(sides) > len(set(sides)):
        return "two tables of vectors on one side"
    return None


def _positions_refusal(call: Call) -> str | None:
    positions = call.lowered.positions
    reads = (DistanceTable, Slope, GatherTable, ValueTable)
    if not positions.unit_step and any(isinstance(term, reads) for term in call.lowered.terms):
        return "distances of explicit positions do not follow the order of the tokens"
    if positions.queries.order is None and positions.q_len > positions.k_len:
        return "more queries than keys have no order"
    return None


def _biases(terms: tuple[Term, ...], scale: float, dtype: torch.dtype) -> dict[str, Any]:
    """Tables of all terms as one, slopes and offsets."""
    tables: list[Table] = []
    past = future = None
    q_offset = k_offset = None
    for term in terms:
        if isinstance(term, DistanceTable):
            tables.append((term.values.to(dtype) * (scale if term.inside else 1.0), term.zero))
        elif isinstance(term, Slope):
            slopes = [term.past, term.past if term.future is None else term.future]
            slopes = [slope.double() * (scale if term.inside else 1.0) for slope in slopes]
            past = slopes[0] if past is None else past + slopes[0]
            future = slopes[1] if future is None else future + slopes[1]
        elif isinstance(term, Offset):
            offsets = term.q.double(), term.k.double()
            q_offset = offsets[0] if q_offset is None else q_offset + offsets[0]
            k_offset = offsets[1] if k_offset is None else k_offset + offsets[1]
    table, zero = merged(tables) or (None, 0)
    return {
        "table": table,
        "table_zero": zero,
        "past": past,
        "future": future,
        "q_offset": q_offset,
        "k_offset": k_offset,
    }


def _rows(terms: tuple[Term, ...], dtype: torch.dtype) -> dict[str, Any]:
    """Tables of vectors, one row for each distance."""
    found: dict[str, Any] = {}
    for term in terms:
        if isinstance(term, GatherTable):
            side = "query" if term.side == "q" else "key"
        elif isinstance(term, ValueTable):
            side = "value"
        else:
            continue
        weight = term.weight.to(dtype)
        if term.row_of is not None:
            weight = weight.index_select(1, term.row_of)
        found[f"{side}_rows"], found[f"{side}_zero"] = weight, term.zero
        if isinstance(term, GatherTable) and term.bias is not None:
            found[f"{side}_bias"] = term.bias.to(dtype)
    return found
