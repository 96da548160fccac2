"""Flash kernels of our own in Triton, for functions of the distance, vectors by it, and offsets.

Linear in memory, training included; a table's gradient is summed along diagonals, without
atomics. TRITON_INTERPRET=1 runs it on CPU tensors, for tests.
"""

import os
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from posenc.backends.backend import Backend, Call, operands
from posenc.normal_form.features import Feature
from posenc.normal_form.form import NormalForm, Slopes, Table, merged
from posenc.torch_modes import device_type, kept_for
from posenc.triton import INSTALLED

if TYPE_CHECKING:
    from posenc.triton.gathered_args import Vectors
    from posenc.triton.kernel_args import Inputs

CAN = frozenset(
    {
        Feature.ROTATION,
        Feature.POLAR,
        Feature.TABLE,
        Feature.SLOPES,
        Feature.QUERY_SCALE,
        Feature.SINK,
        Feature.OFFSETS,
        Feature.VECTORS,
        Feature.VALUE_VECTORS,
        Feature.MASK,
        Feature.PLACED_DISTANCES,
    }
)
_WIDEST = 256
# Each query and each key have a number for each distance: of more, they would outgrow the rest.
_DISTANCES = 2048


def attend(call: Call) -> Tensor:
    if _vectors_of(call.form):
        from posenc.triton.gathered import attend as gather

        return gather(*_gathered(call)).to(call.v.dtype)
    # Here, for it needs Triton.
    from posenc.triton.attention import attend as kernel

    return kernel(_inputs(call)).to(call.v.dtype)


def with_lse(call: Call) -> tuple[Tensor, Tensor]:
    if _vectors_of(call.form):
        from posenc.triton.gathered import attend_with_lse as gather

        out, lse = gather(*_gathered(call))
        return out.to(call.v.dtype), lse
    from posenc.triton.attention import attend_with_lse

    out, lse = attend_with_lse(_inputs(call))
    return out.to(call.v.dtype), lse


def _inputs(call: Call) -> "Inputs":
    """The call as the operator takes it."""
    x = _without_lists(call)
    # The operator of a graph makes its lists itself.
    return x if x.plain or torch.compiler.is_compiling() else _with_lists(call, x)


def _without_lists(call: Call) -> "Inputs":
    from posenc.triton.kernel_args import Inputs

    q, k, v, scale = operands(call)
    table, slopes = _biases(call, scale)
    offsets = call.form.offsets
    seen = call.form.visibility
    plain = call.form.plain and seen.chunk is None
    # Plain positions are counted in 32 bits, and a wider window hides nothing of them.
    width = 0 if seen.window is None or (plain and seen.window >= 2**31) else seen.window
    return Inputs(
        q,
        k,
        v,
        table=None if table is None else table.values,
        past=None if slopes is None else slopes.past,
        future=None if slopes is None else slopes.future,
        sink=None if call.form.sink is None else call.form.sink.expand(q.shape[1]),
        q_offset=None if offsets is None else offsets.q,
        k_offset=None if offsets is None else offsets.k,
        places=[] if plain else list(kept_for(call.form, "_places", (), lambda: _places(call))),
        zero=0 if table is None else table.zero,
        scale=scale,
        causal=seen.causal,
        width=width,
        sinks=seen.sinks,
        prefix=seen.prefix,
        plain=plain,
        lse=call.lse,
    )


def _with_lists(call: Call, x: "Inputs") -> "Inputs":
    """With the tiles that meet, which all layers share that share what was lowered."""
    from posenc.triton.tile_lists import made_for

    size = 0 if x.table is None else x.table.shape[1]
    settings = size, x.zero, x.past is None, call.width, x.v.shape[-1], x.q.dtype
    backward = torch.is_grad_enabled()
    lists = kept_for(call.form, "_tile_lists", settings, lambda: tuple(made_for(x, backward)))
    return x._replace(lists=list(lists))


def _vectors_of(form: NormalForm) -> list[Table]:
    """The vectors by distance that queries, keys and values read."""
    tables = form.on_query, form.on_key, form.on_value
    return [table for table in tables if table is not None]


def _gathered(call: Call) -> "tuple[Inputs, Vectors]":
    """The call as the operator takes it that reads vectors by distance."""
    from posenc.triton.gathered_args import GatheredArgs, Vectors
    from posenc.triton.tile_lists import lists_of

    x, form = _without_lists(call), call.form
    fields: dict[str, Any] = {}
    for name, table in (("query", form.on_query), ("key", form.on_key), ("value", form.on_value)):
        near = None if table is None else _as_met(call, table)
        fields[f"by_{name}"] = None if near is None else near.values.to(x.q.dtype)
        fields[f"{name}_zero"] = 0 if near is None else near.zero
    for name, side in (("by_query", x.q), ("by_key", x.k)):
        if fields[name] is not None:
            fields[name] = _products(side, fields[name], x.q.shape[1])
    vectors = Vectors(**fields)
    if x.plain or torch.compiler.is_compiling():
        return x, vectors
    size = 0 if x.table is None else x.table.shape[1]
    settings = size, x.zero, *vectors.ends, call.width, x.v.shape[-1], x.q.dtype
    args, backward = GatheredArgs(x, vectors), torch.is_grad_enabled()
    lists = kept_for(form, "_gathered_lists", settings, lambda: tuple(lists_of(args, backward)))
    return x._replace(lists=list(lists)), vectors


def _as_met(call: Call, table: Table) -> Table:
    """A table of those distances that are met, with its last row as often as makes 16 of them.

    A product of 16 columns more is faster than one of a number that nothing divides.
    """
    start, stop = _met(call, table)
    values = table.values[:, start:stop]
    more = values[:, -1:].expand(-1, start - stop & 15, -1)
    return Table(torch.cat((values, more), dim=1), table.zero - start)


def _met(call: Call, table: Table) -> tuple[int, int]:
    """The first row of a table that any pair reads, and one beyond the last."""
    form, size = call.form, table.values.shape[1]
    if not form.plain:
        return 0, size
    least, most = 1 - call.k.shape[2], 0 if form.visibility.past_only else call.q.shape[2] - 1
    start = max(0, min(table.zero + least, size - 1))
    return start, max(start, min(table.zero + most, size - 1)) + 1


def _products(x: Tensor, vectors: Tensor, heads: int) -> Tensor:
    """x (b, g, t, d) with vectors (1|h, n, d): (b, h|g, t, n)."""
    if vectors.shape[0] == 1:
        return F.linear(x, vectors[0])
    if x.shape[1] == heads:
        return x @ vectors.mT
    return (x[:, :, None] @ vectors.unflatten(0, (x.shape[1], -1)).mT).flatten(1, 2)


def limits(call: Call) -> str | None:
    machine = _machine(device_type(call.q))
    if machine is not None:
        return machine
    form = call.form
    if max(call.width, call.v.shape[-1]) > _WIDEST:
        return f"heads wider than {_WIDEST} do not fit its tiles"
    tables = form.table, form.inside_table
    learns = _learns(form.slopes) or _learns(form.inside_slopes) or any(map(_learns, tables))
    if learns and not form.plain and not (form.positions.unit_step and form.positions.aligned):
        return "a table's gradient is summed along diagonals, and these positions have none"
    return _limits_of_vectors(call, learns) if _vectors_of(form) else None


def _limits_of_vectors(call: Call, learns: bool) -> str | None:
    form = call.form
    if form.sink is not None or form.offsets is not None:
        return "it has no SinkLogit and no Offset beside vectors by distance"
    if learns:
        return "it has no gradient of a table of numbers beside vectors by distance"
    if not form.plain and not (form.positions.unit_step and form.positions.aligned):
        return "it gathers vectors where each key of a query has a distance of its own"
    for table in _vectors_of(form):
        start, stop = _met(call, table)
        if stop - start > _DISTANCES:
            return f"it holds a number for each of {_DISTANCES} distances, not of {stop - start}"
    return None


def declines(call: Call) -> str | None:
    if device_type(call.q) == "cpu":
        return "in Triton's interpreter it is for tests"
    form, positions = call.form, call.form.positions
    vectors = _vectors_of(form)
    if vectors and call.q.shape[2] == 1:
        return "one query reads few vectors"
    told = form.by_distance or form.sink is not None or form.offsets is not None or vectors
    if told or call.lse:
        return None
    if Feature.MASK in form.features or not positions.in_order:
        return None
    # SDPA's own causality aligns the first query with the first key.
    if form.visibility.causal and positions.q_len != positions.k_len:
        return None
    return "where nothing is added or hidden but the future, nothing is better than SDPA"


def _machine(device: str) -> str | None:
    if device == "cpu":
        if os.environ.get("TRITON_INTERPRET") != "1":
            return "it runs on NVIDIA GPUs (TRITON_INTERPRET=1 runs it on CPU, for tests)"
    elif device != "cuda":
        return f"it runs on NVIDIA GPUs, not on {device}"
    return None if INSTALLED else "Triton is not installed (torch for CUDA brings it)"


def _learns(bias: Table | Slopes | None) -> bool:
    tensors = [] if bias is None else vars(bias).values()
    learned = any(isinstance(x, Tensor) and x.requires_grad for x in tensors)
    return learned and torch.is_grad_enabled()


def _biases(call: Call, scale: float) -> tuple[Table | None, Slopes | None]:
    """The table and the slopes of the distance; slopes that learn are a table."""
    table, slopes = call.form.biases(scale)
    if slopes is None or not _learns(slopes):
        return table, slopes
    as_table = _as_table(slopes, call.form.positions.k_len)
    return merged([as_table] if table is None else [table, as_table]), None


def _as_table(slopes: Slopes, length: int) -> Table:
    """Slopes that learn, as a table over the distances of plain positions."""
    distance = torch.arange(1 - length, length, device=slopes.past.device)
    past, future = slopes.past[:, None] * distance, -slopes.future[:, None] * distance
    return Table(torch.where(distance <= 0, past, future), length - 1)


def _places(call: Call) -> tuple[Tensor, ...]:
    """Coordinates, orders, documents and validity, in the order of `Inputs.places`."""
    positions = call.form.positions
    orders = positions.orders()
    q_document, k_document = positions.queries.document, positions.keys.document
    if q_document is None or k_document is None:
        q_document, k_document = torch.zeros_like(orders[0]), torch.zeros_like(orders[1])
    chunk = call.form.visibility.chunk
    if chunk is not None:
        # A chunk is to the kernels a document of its own.
        chunks = orders[0] // chunk, orders[1] // chunk
        q_document, k_document = _both((q_document, k_document), chunks)
    valid = positions.keys.valid
    if valid is None:
        valid = torch.ones_like(orders[1], dtype=torch.bool)
    coordinates = (
        (positions.queries.position, positions.keys.position) if call.form.by_distance else orders
    )
    each = (*coordinates, *orders, q_document, k_document, valid)
    return tuple([x.view(-1, x.shape[-1]) for x in each])


def _both(*told: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """One number for each query and key (1|b, t), the same where all that is told is the same.

    What is told may be any whole number; ranks among those of the keys are small.
    """
    q_id = k_id = torch.zeros((1, 1), dtype=torch.int64, device=told[0][0].device)
    for q, k in told:
        rows = max(x.numel() // x.shape[-1] for x in (q, k))
        q, k = (x.view(-1, x.shape[-1]).expand(rows, -1).contiguous() for x in (q, k))
        held, ranks = k.sort(-1).values, 2 * k.shape[-1] + 1
        # How many keys are below, and how many not above: what no key has gets a number of its own.
        below, within = (
            [torch.searchsorted(held, x, right=on) for x in (q, k)] for on in (False, True)
        )
        q, k = below[0] + within[0], below[1] + within[1]
        q_id, k_id = q_id * ranks + q, k_id * ranks + k
    return q_id, k_id


BACKEND = Backend(attend, CAN, dropout=False, limits=limits, declines=declines, with_lse=with_lse)
