"""Vectors by distance as Triton's kernels read them, and what they cannot do beside them.

A product of all queries, or of all keys, with the vectors is a band: in it the kernels look up a
number for each pair, where a vector for each would be read again and again.
"""

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from posenc.backends.backend import Call
from posenc.normal_form.form import NormalForm, Slopes, Table
from posenc.normal_form.pairs import rows_between
from posenc.positions.tokens import reading_values
from posenc.torch_modes import kept_for, named

if TYPE_CHECKING:
    from posenc.triton.gathered_args import Vectors
    from posenc.triton.kernel_args import Inputs

# Each query and each key have a number for each distance: of more, they would outgrow the rest.
_DISTANCES = 2048
# Heads that fit in more than 16 bits, beside what is gathered.
_WIDE = 128
_NOWHERE = torch.iinfo(torch.int64).max


def vectors_of(form: NormalForm) -> list[Table]:
    """The vectors by distance that queries, keys and values read."""
    tables = form.on_query, form.on_key, form.on_value
    return [table for table in tables if table is not None]


def gathered(call: Call, x: "Inputs") -> "tuple[Inputs, Vectors]":
    """The call as the operator takes it that reads vectors by distance."""
    from posenc.triton.gathered_args import GatheredArgs, Vectors
    from posenc.triton.tile_lists import lists_of

    form, dtype = call.form, x.q.dtype
    vectors, numbers = _read_by_queries(form)
    query, beside, key, value = (
        None if table is None else _as_met(call, table)
        for table in (vectors, numbers, form.on_key, form.on_value)
    )
    by_query = None if query is None else _products(x.q, query.values.to(dtype), x.q.shape[1])
    if by_query is not None and beside is not None:
        by_query = by_query + beside.values.to(dtype)[:, None]
    told = Vectors(
        by_query=by_query,
        query_zero=0 if query is None else query.zero,
        by_key=None if key is None else _products(x.k, key.values.to(dtype), x.q.shape[1]),
        key_zero=0 if key is None else key.zero,
        by_value=None if value is None else value.values.to(dtype),
        value_zero=0 if value is None else value.zero,
        repeated=None if key is None or form.plain else _places(form)[2],
    )
    # The operator of a graph makes its lists itself.
    if x.plain or torch.compiler.is_compiling():
        return x, told
    size = 0 if x.table is None else x.table.shape[1]
    settings = size, x.zero, *told.ends, call.width, x.v.shape[-1], dtype
    backward = torch.is_grad_enabled()

    def lists() -> tuple[Tensor, ...]:
        return tuple(lists_of(GatheredArgs(x, told), backward))

    return x._replace(lists=list(kept_for(form, "_gathered_lists", settings, lists))), told


def _read_by_queries(form: NormalForm) -> tuple[Table | None, Table | None]:
    """The vectors that queries read, and of the same distances the numbers inside the scale."""
    vectors, numbers = form.on_query, form.inside_table
    if vectors is None or numbers is None:
        return vectors, None
    x, y = (table.values.shape[1] - table.zero for table in (vectors, numbers))
    if x == y and vectors.zero == numbers.zero:
        return vectors, numbers
    zero = max(vectors.zero, numbers.zero)
    count = zero + max(x, y)
    wide = Table(numbers.values[..., None], numbers.zero)
    rows = rows_between(vectors, -zero, count), rows_between(wide, -zero, count)[..., 0]
    return Table(rows[0], zero), Table(rows[1], zero)


def _as_met(call: Call, table: Table) -> Table:
    """A table of those distances that are met, with its last row as often as makes 16 of them.

    A product with 16 columns more is faster than one with a number that nothing divides.
    """
    start, stop = _met(call, table)
    values = table.values[:, start:stop]
    more = values[:, -1:].expand(-1, (start - stop) % 16, *values.shape[2:])
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
    form = call.form
    if form.sink is not None or form.offsets is not None:
        return "it has no SinkLogit and no Offset beside vectors by distance"
    widest = max(call.width, call.v.shape[-1])
    if widest > _WIDE and max(x.dtype.itemsize for x in (call.q, call.k, call.v)) > 2:
        return f"vectors beside heads wider than {_WIDE} fit its tiles in 16 bits alone"
    numbers = [form.slopes, form.inside_slopes, form.table]
    numbers += [form.inside_table] if form.on_query is None else []
    if any(map(learns, numbers)):
        return "it has no gradient of numbers by distance beside vectors"
    if not form.plain:
        if not reading_values():
            return "a graph does not know whether each key of a query has a distance of its own"
        keys_apart, queries_apart, _ = _places(form)
        if not keys_apart or (form.on_key is not None and not queries_apart):
            return "it gathers vectors where each key of a query has a distance of its own"
    for table in vectors_of(form):
        start, stop = _met(call, table)
        if stop - start > _DISTANCES:
            return f"it holds a number for each of {_DISTANCES} distances, not of {stop - start}"
    return None


def _places(form: NormalForm) -> tuple[bool, bool, Tensor]:
    """Whether no two keys of a document are at one place; whether queries repeat one place at most,
    as those of padding do; and which that is in each row (1|b).

    For this a GPU is waited for.
    """
    positions = form.positions

    def told() -> tuple[bool, bool, Tensor]:
        queries, keys = positions.queries, positions.keys
        valid = None if keys.valid is None else keys.valid.long()
        _, same = _neighbours(keys.position, keys.document, valid)
        place, twice = _neighbours(queries.position, queries.document, None)
        place = place[..., 1:]
        least = place.masked_fill(~twice, _NOWHERE).amin(-1) if twice.numel() else place.sum(-1)
        once = (place == least[..., None]) | ~twice
        return not bool(same.any()), bool(once.all()), least.view(-1)

    return kept_for(form, "_vector_places", (), told)


def _neighbours(
    position: Tensor, document: Tensor | None, valid: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Positions (1|b, t), sorted within documents, and whether each but the first repeats the one
    before it (1|b, t - 1); what is not valid repeats nothing.
    """
    rows = torch.broadcast_tensors(*[x for x in (position, document, valid) if x is not None])
    order = torch.arange(position.shape[-1], device=position.device).expand(rows[0].shape)
    for row in rows:
        order = order.gather(-1, row.gather(-1, order).argsort(dim=-1, stable=True))
    held = [row.gather(-1, order) for row in rows]
    same = torch.stack([row[..., 1:] == row[..., :-1] for row in held]).all(0)
    return held[0], same if valid is None else same & (held[-1][..., 1:] != 0)


def learns(bias: Table | Slopes | None) -> bool:
    tensors = [] if bias is None else named(bias).values()
    learned = any(isinstance(x, Tensor) and x.requires_grad for x in tensors)
    return learned and torch.is_grad_enabled()
