"""Vectors that queries have of their own, for tables by distance: beside each other, beside q.

Letters: b batch, h query heads, g key heads, tq queries, tk keys, d head dimension, e width of own.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from posenc.normal_form.form import NormalForm, OwnVectors, Table, merged


def beside(parts: Sequence[tuple[Tensor, Table]]) -> OwnVectors | None:
    """One of several, each vector beside the others and so their tables."""
    xs = [x for x, _ in parts]
    width, start = sum([x.shape[-1] for x in xs]), 0
    tables: list[Table] = []
    for x, table in parts:
        apart = F.pad(table.values, (start, width - start - x.shape[-1]))
        tables.append(Table(apart, table.zero))
        start += x.shape[-1]
    table = merged(tables)
    if table is None:
        return None
    rows = max([x.shape[0] for x in xs])
    x = xs[0] if len(xs) == 1 else torch.cat([x.expand(rows, -1, -1, -1) for x in xs], dim=-1)
    return OwnVectors(x, table)


def widened(
    form: NormalForm,
    q: Float[Tensor, "b h tq d"],
    k: Float[Tensor, "b g tk d"],
    scale: float,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """q, scaled, beside the vectors of its own, and k beside zeros: one table is read by both."""
    assert form.own is not None
    own = form.own.x.to(dtype) * form.scale
    if form.query_scale is not None:
        own = own * form.query_scale.to(dtype)[..., None]
    own = own.expand(*q.shape[:3], -1)
    return torch.cat((q.to(dtype) * scale, own), dim=-1), F.pad(k.to(dtype), (0, own.shape[-1]))


def beside_zeros(table: Table, own: OwnVectors) -> Table:
    """The vectors that widened keys or queries read, where nothing of own is in them."""
    return Table(F.pad(table.values, (0, own.x.shape[-1])), table.zero)


def read_by_queries(form: NormalForm, width: int) -> Table | None:
    """The vectors that q of this width reads and then, beside them, those that its own read."""
    if form.own is None:
        return form.on_query
    own = form.own.table
    after = Table(F.pad(own.values, (width, 0)), own.zero)
    if form.on_query is None:
        return after
    return after.plus(beside_zeros(form.on_query, form.own))
