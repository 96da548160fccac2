"""Flash kernels of our own in Triton, for functions of the distance, vectors by it, and offsets.

Linear in memory, training included; a table's gradient is summed along diagonals, without
atomics. TRITON_INTERPRET=1 runs it on CPU tensors, for tests.
"""

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from posenc.backends.backend import Backend, Call, operands
from posenc.backends.triton_vectors import gathered, learns, vectors_of
from posenc.backends.triton_vectors import limits as vectors_limits
from posenc.normal_form.features import Feature
from posenc.normal_form.form import NormalForm, Slopes, Table, merged
from posenc.torch_modes import cast_to, device_type, kept_for
from posenc.triton import INSTALLED, in_32_bits

if TYPE_CHECKING:
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
_FARTHEST = 2**30


def attend(call: Call) -> Tensor:
    if vectors_of(call.form):
        from posenc.triton.gathered import attend as gather

        x = _without_lists(call, *_operands(call))
        return cast_to(call.v.dtype, gather(*gathered(call, x)))
    # Here, for it needs Triton.
    from posenc.triton.layers import attended

    q, k, v, scale = _operands(call)

    def table() -> Tensor | None:
        found = _biases(call.form, scale)[0]
        return None if found is None else found.values

    out = attended(call.form, q, k, v, scale, lambda: _inputs(call, q, k, v, scale), table)
    return cast_to(call.v.dtype, out)


def with_lse(call: Call) -> tuple[Tensor, Tensor]:
    if vectors_of(call.form):
        from posenc.triton.gathered import attend_with_lse as gather

        out, lse = gather(*gathered(call, _without_lists(call, *_operands(call))))
        return cast_to(call.v.dtype, out), lse
    from posenc.triton.attention import attend_with_lse

    out, lse = attend_with_lse(_inputs(call, *_operands(call)))
    return cast_to(call.v.dtype, out), lse


def _operands(call: Call) -> tuple[Tensor, Tensor, Tensor, float]:
    q, k, v, scale = operands(call)
    return in_32_bits(q), in_32_bits(k), in_32_bits(v), scale


def _inputs(call: Call, q: Tensor, k: Tensor, v: Tensor, scale: float) -> "Inputs":
    """The call as the operator takes it, of its `_operands`."""
    x = _without_lists(call, q, k, v, scale)
    # The operator of a graph makes its lists itself.
    return x if x.plain or torch.compiler.is_compiling() else _with_lists(call, x)


def _without_lists(call: Call, q: Tensor, k: Tensor, v: Tensor, scale: float) -> "Inputs":
    from posenc.triton.kernel_args import Inputs

    form = call.form
    if form.on_query is not None and form.inside_table is not None:
        # What is inside the scale joins the products of queries with vectors.
        form = replace(form, inside_table=None)
    table, slopes = _biases(form, scale)
    offsets = call.form.offsets
    seen = call.form.visibility
    plain = call.form.plain and seen.chunk is None
    # Plain positions are fewer, and sums of two are counted in 32 bits.
    width = 0 if seen.window is None or (plain and seen.window >= _FARTHEST) else seen.window
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
        sinks=min(seen.sinks, _FARTHEST) if plain else seen.sinks,
        prefix=min(seen.prefix, _FARTHEST) if plain else seen.prefix,
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


def limits(call: Call) -> str | None:
    machine = _machine(device_type(call.q))
    if machine is not None:
        return machine
    form = call.form
    if max(call.width, call.v.shape[-1]) > _WIDEST:
        return f"heads wider than {_WIDEST} do not fit its tiles"
    tables = form.table, form.inside_table
    any_learns = learns(form.slopes) or learns(form.inside_slopes) or any(map(learns, tables))
    if any_learns and not form.plain and not (form.positions.unit_step and form.positions.aligned):
        return "a table's gradient is summed along diagonals, and these positions have none"
    return vectors_limits(call) if vectors_of(form) else None


def declines(call: Call) -> str | None:
    if device_type(call.q) == "cpu":
        return "in Triton's interpreter it is for tests"
    form, positions = call.form, call.form.positions
    vectors = vectors_of(form)
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
    return None if INSTALLED else "Triton 3.4 or later is not installed (torch for CUDA brings it)"


def _biases(form: NormalForm, scale: float) -> tuple[Table | None, Slopes | None]:
    """The table and the slopes of the distance; slopes that learn are a table."""
    table, slopes = form.biases(scale)
    if slopes is None or not learns(slopes):
        return table, slopes
    as_table = _as_table(slopes, form.positions.k_len)
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
    coordinates = orders
    if call.form.by_distance or vectors_of(call.form):
        coordinates = positions.queries.position, positions.keys.position
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
