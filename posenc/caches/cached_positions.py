"""Positions of keys that a cache holds: carried on, bounded, thinned out."""

from dataclasses import replace

import torch
from torch import Tensor

from posenc.positions import Positions, Tokens, as_positions
from posenc.positions.tokens import reading_values


def continued(
    held: Positions, new: int, q_len: int, causal: bool | None = None, length: int | None = None
) -> Positions:
    """The last q_len of `new` tokens as queries that follow the held keys.

    Each row counts on from its last real token; padding, on either side, stays hidden. Only for
    positions that count tokens (`unit_step`). causal None: as they were held. With a `length` up
    to which tokens will come the extent is that of the last already; else it grows with them.
    """
    causal = held.causal if causal is None else causal
    if held.in_order and held.extent is None:
        # They count from 0: without an extent positions are less than the number of keys.
        return as_positions(None, q_len, held.k_len + new, causal=causal, device=held.device)
    keys = held.keys if held.in_order else held.ordered().keys
    step = torch.arange(1, new + 1, device=held.device)

    newest = real = None
    if keys.valid is not None:
        valid = keys.valid.expand(held.batch, -1)
        newest = (valid * torch.arange(held.k_len, device=held.device)).argmax(-1, keepdim=True)
        real = valid.any(dim=-1, keepdim=True)

    def last(x: Tensor, before: int = -1) -> Tensor:
        if newest is None or real is None:
            return x[..., -1:]
        rows = x.view(-1, held.k_len).expand(held.batch, -1)
        # A row of padding alone has no token yet: its first one is the next.
        return torch.where(real, rows.gather(1, newest), before)

    def repeated(x: Tensor) -> Tensor:
        return x.expand(*x.shape[:-1], new)

    tokens = Tokens(
        last(keys.position, held.start - 1) + step,
        order=None if keys.order is None else last(keys.order) + step,
        document=None if keys.document is None else repeated(last(keys.document)),
        valid=None if keys.valid is None else keys.valid.new_ones(keys.valid.shape[0], new),
    )
    extent = held.extent
    if extent is not None and length is None:
        extent = extent + new
    return Positions(tokens.last(q_len), keys + tokens, causal, extent, True, held.start)


def bounded(positions: Positions, length: int) -> Positions:
    """Positions whose extent is that of `length` tokens, or the larger one that was asked for."""
    return positions.with_extent(length + positions.start)


def selected(positions: Positions, columns: Tensor) -> Positions:
    """The same queries before these keys only, columns in rising order."""
    positions = positions.ordered()
    return replace(positions, keys=positions.keys[columns])


def fresh_keys(positions: Positions, new: int, slots: Tensor | None) -> Tokens | bool:
    """The new keys in a cache, by their slots or the last; True where the queries stand there too.

    As many queries may stand elsewhere, as in cross-attention. That they do not is told by where
    positions lie in memory, for values would have to come from their device.
    """
    # No `last`, whose slice would bind a graph to the number of keys.
    keys = positions.keys[-new:] if slots is None else positions.ordered().keys[slots]
    q, k = positions.queries.position, keys.position
    same = reading_values() and q.data_ptr() == k.data_ptr()
    return (same and q.shape == k.shape and q.stride() == k.stride()) or keys
