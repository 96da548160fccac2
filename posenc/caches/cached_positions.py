"""Positions of keys that a cache holds: carried on, thinned out, reordered."""

from dataclasses import replace

import torch
from torch import Tensor

from posenc.positions import Positions, Tokens


def continued(
    held: Positions, new: int, q_len: int, causal: bool | None = None, extent: int | None = None
) -> Positions:
    """The last q_len of `new` tokens as queries that follow the held keys.

    Each row counts on from its last real token; padding, on either side, stays hidden. Only for
    positions that count tokens (`unit_step`). causal and extent None: as they were held, where an
    extent reaches as much farther as there are new tokens.
    """
    keys = held.keys if held.in_order else held.ordered().keys
    step = torch.arange(1, new + 1, device=held.device)

    def last(x: Tensor) -> Tensor:
        if keys.valid is None:
            return x[..., -1:]
        rows = x.view(-1, held.k_len).expand(held.batch, -1)
        real = keys.valid.expand(held.batch, -1)
        newest = (real * torch.arange(held.k_len, device=held.device)).argmax(-1, keepdim=True)
        # A row of padding alone has no token yet: its first one is at 0.
        return torch.where(real.any(dim=-1, keepdim=True), rows.gather(1, newest), -1)

    def repeated(x: Tensor) -> Tensor:
        return x.expand(*x.shape[:-1], new)

    tokens = Tokens(
        last(keys.position) + step,
        order=None if keys.order is None else last(keys.order) + step,
        document=None if keys.document is None else repeated(last(keys.document)),
        valid=None if keys.valid is None else keys.valid.new_ones(keys.valid.shape[0], new),
    )
    if extent is None and held.extent is not None:
        extent = held.extent + new
    causal = held.causal if causal is None else causal
    return Positions(tokens.last(q_len), keys + tokens, causal, extent, unit_step=True)


def first(positions: Positions, count: int) -> Positions:
    """The first `count` keys, and these as the queries."""
    keys = replace(positions.keys[:count], length=None)
    return replace(positions, queries=keys, keys=keys)


def selected(positions: Positions, columns: Tensor) -> Positions:
    """The same queries before these keys only, columns in rising order."""
    positions = positions.ordered()
    return replace(positions, keys=positions.keys[columns])


def first_moved(held: Positions, now: Positions, count: int) -> int | None:
    """The first of `count` tokens that is elsewhere now than it was held; None where none moved.

    Padding moves as it likes.
    """
    count = min(count, held.k_len)
    was, now_at = (_with_axes(x.keys[:count].position) for x in (held, now))
    fits = all(a == b or 1 in (a, b) for a, b in zip(was.shape, now_at.shape, strict=True))
    if not fits:
        # Of another batch: refused later, where the tensors that they are for are known.
        return None
    moved = (was != now_at).any(dim=-1)
    if now.keys.valid is not None:
        moved = moved & now.keys.valid[:, :count]
    columns = moved.any(dim=0).nonzero()
    return int(columns[0]) if len(columns) else None


def _with_axes(k: Tensor) -> Tensor:
    """Coordinates as (1|b, t, axes)."""
    k = k if k.ndim == 3 else k[..., None]
    return k if k.ndim == 3 else k[None]


def reordered(positions: Positions, rows: Tensor) -> Positions:
    """The same positions with these rows of the batch."""
    return replace(positions, queries=positions.queries.rows(rows), keys=positions.keys.rows(rows))
