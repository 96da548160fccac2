"""Positions of keys that a cache holds: carried on, thinned out, reordered."""

from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from posenc.positions import Positions


def continued(held: Positions, new: int) -> Positions:
    """`new` queries that follow the held keys, each row counting on from its last real token.

    Only for positions that count tokens (`unit_step`). Padding, on either side, stays hidden.
    """
    valid, device = held.k_valid, held.k.device
    step = torch.arange(1, new + 1, device=device)

    def last(x: Tensor) -> Tensor:
        if valid is None:
            return x[..., -1:]
        rows = x.view(-1, held.k_len).expand(held.batch, -1)
        real = valid.expand(held.batch, -1)
        at = (real * torch.arange(held.k_len, device=device)).argmax(dim=-1, keepdim=True)
        # A row of padding alone has no token yet: its first one is at 0.
        return torch.where(real.any(dim=-1, keepdim=True), rows.gather(1, at), -1)

    def joined(x: Tensor, more: Tensor) -> Tensor:
        return torch.cat((x.expand(*more.shape[:-1], held.k_len), more), dim=-1)

    q = last(held.k) + step
    extent = None if held.extent is None else held.extent + new
    if held.in_order:
        k = joined(held.k, q)
        return Positions(q=q, k=k, extent=extent, unit_step=True, causal=held.causal)
    k_order = held.orders()[1]
    q_order, document = last(k_order) + step, held.k_document
    q_document = k_document = None
    if document is not None:
        newest = last(document)
        q_document = newest.expand(*newest.shape[:-1], new)
        k_document = joined(document, q_document)
    return Positions(
        q=q,
        k=joined(held.k, q),
        q_order=q_order,
        k_order=joined(k_order, q_order),
        q_document=q_document,
        k_document=k_document,
        k_valid=None if valid is None else joined(valid, valid.new_ones(valid.shape[0], new)),
        extent=extent,
        unit_step=True,
        causal=held.causal,
    )


def last_queries(positions: Positions, count: int) -> Positions:
    """The same keys before the last `count` queries alone."""
    last = slice(positions.q_len - count, None)
    order, document = positions.q_order, positions.q_document
    return replace(
        positions,
        q=positions.q[..., last],
        q_order=None if order is None else order[..., last],
        q_document=None if document is None else document[..., last],
    )


def first(positions: Positions, count: int) -> Positions:
    """The first `count` keys, and these as the queries."""
    if not positions.in_order:
        return selected(positions, torch.arange(count, device=positions.k.device))
    k = positions.k[:count] if positions.k.ndim == 1 else positions.k[:, :count]
    return replace(positions, q=k, k=k, q_length=None, k_length=None)


def selected(positions: Positions, columns: Tensor) -> Positions:
    """The same queries before these keys only, columns in rising order."""

    def pick(x: Tensor | None) -> Tensor | None:
        return None if x is None else x.index_select(min(x.ndim - 1, 1), columns)

    q_order, k_order = positions.orders()
    k = positions.k.index_select(min(positions.k.ndim - 1, 1), columns)
    return replace(
        positions,
        k=k,
        q_order=q_order,
        k_order=pick(k_order),
        k_document=pick(positions.k_document),
        k_valid=pick(positions.k_valid),
        k_length=pick(positions.k_length),
        extent=positions.bound,
    )


def first_moved(held: Positions, now: Positions, count: int) -> int | None:
    """The first of `count` tokens that is elsewhere now than it was held; None where none moved.

    Padding moves as it likes.
    """
    count = min(count, held.k_len)
    was, at = (_with_axes(x.k)[:, :count] for x in (held, now))
    fits = all(a == b or 1 in (a, b) for a, b in zip(was.shape, at.shape, strict=True))
    if not fits:
        # Positions of another batch, which whoever knows the tensors refuses.
        return None
    moved = (was != at).any(dim=-1)
    if now.k_valid is not None:
        moved = moved & now.k_valid[:, :count]
    columns = moved.any(dim=0).nonzero()
    return int(columns[0]) if len(columns) else None


def _with_axes(k: Tensor) -> Tensor:
    """Coordinates as (1|b, t, axes)."""
    k = k if k.ndim == 3 else k[..., None]
    return k if k.ndim == 3 else k[None]


def reordered(positions: Positions, rows: Tensor) -> Positions:
    """The same positions with these rows of the batch."""
    changed: dict[str, Any] = {}
    for field in fields(positions):
        value = getattr(positions, field.name)
        if isinstance(value, Tensor) and value.ndim > 1 and value.shape[0] > 1:
            changed[field.name] = value.index_select(0, rows)
    return replace(positions, **changed)
