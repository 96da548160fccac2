"""Vectors per distance that keys read: score += scale * k[j] . weight[j - i].

What queries read is one matrix product, written into the diagonals of the tile. What keys read
would be one in the transposed tile. So keys come in short runs, each against all the distances
that it can have, and the scores read these products along their own diagonals.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from posenc.backends.blocked.inputs import Rows
from posenc.backends.blocked.tiles import Tile

RUN = 64


@dataclass(frozen=True)
class Runs:
    """Keys left .. right of a tile, in runs of equal length."""

    tile: Tile
    left: int
    right: int
    length: int

    @property
    def count(self) -> int:
        return (self.right - self.left) // self.length

    def distance(self, run: int) -> int:
        """The greatest one in a run: that of its last key to the first query."""
        last = self.left + (run + 1) * self.length - 1
        return last - self.tile.start - self.tile.shift

    def windows(self, rows: Rows, heads: slice) -> Tensor:
        """The vectors that each run can meet, by falling distance: (1|heads, runs, n, d)."""
        table = rows.of(heads)
        run = torch.arange(self.count, device=table.device)[:, None] * self.length
        back = torch.arange(self.tile.rows + self.length - 1, device=table.device)
        index = self.distance(0) + rows.zero + run - back
        return table[:, index.clamp(0, table.shape[1] - 1)]

    def keys(self, k: Tensor, heads: int) -> Tensor:
        """(heads, runs, length, d)."""
        k = k[:, self.left : self.right].unflatten(1, (self.count, self.length))
        return k if k.shape[0] == heads else k.repeat_interleave(heads // k.shape[0], 0)

    def of(self, scores: Tensor) -> Tensor:
        """The scores of these keys, (heads, rows, runs, length)."""
        left, right = self.left - self.tile.left, self.right - self.tile.left
        return scores[:, :-1, left:right].unflatten(-1, (self.count, self.length))

    def along(self, products: Tensor) -> Tensor:
        """Products (heads, runs, length, n) as the scores that they are parts of."""
        heads, runs, length, n = products.shape
        shape = (heads, self.tile.rows, runs, length)
        strides = (runs * length * n, 1, length * n, n - 1)
        return products.as_strided(shape, strides, products.storage_offset() + length - 1)


def add(scores: Tensor, k: Tensor, tile: Tile, rows: Rows, heads: slice, scale: float) -> None:
    """Add the term to scores (heads, rows + 1, width); keys (key heads, tk, d)."""
    for runs in _runs(tile, rows):
        windows = runs.windows(rows, heads).to(k.dtype)
        products = runs.keys(k, scores.shape[0]) @ windows.mT
        runs.of(scores).add_(runs.along(products), alpha=scale)
    far = _far(tile, rows)
    if far.start < far.stop:
        keys = Runs(tile, far.start, far.stop, far.stop - far.start).keys(k, scores.shape[0])[:, 0]
        bias = keys @ rows.of(heads)[:, -1:].to(k.dtype).mT
        scores[:, :-1, far.start - tile.left : far.stop - tile.left].add_(bias.mT, alpha=scale)


def backward(
    grad: Tensor,
    grad_k: Tensor,
    grad_rows: Tensor,
    k: Tensor,
    tile: Tile,
    rows: Rows,
    heads: slice,
    scale: float,
) -> None:
    """From the gradient of scores, add to those of keys (key heads, tk, d) and of the vectors."""
    n = grad.shape[0]
    shared = n // k.shape[0]
    for runs in _runs(tile, rows):
        windows, keys = runs.windows(rows, heads).to(k.dtype), runs.keys(k, n)
        products = grad.new_zeros(*keys.shape[:3], windows.shape[2])
        runs.along(products).copy_(runs.of(grad))
        of_keys = (products @ windows).flatten(1, 2).unflatten(0, (-1, shared)).sum(1)
        grad_k[:, runs.left : runs.right].add_(of_keys, alpha=scale)
        # By rising distance, and run by run: an index_add would sum in any order on a GPU.
        of_rows = (products.mT @ keys).flip(2)
        for run in range(runs.count):
            start = runs.distance(run) - (windows.shape[2] - 1) + rows.zero
            add_rows(grad_rows, of_rows[:, run], start, scale)
    far = _far(tile, rows)
    if far.start < far.stop:
        keys = Runs(tile, far.start, far.stop, far.stop - far.start).keys(k, n)[:, 0]
        sums = grad[:, :-1, far.start - tile.left : far.stop - tile.left].sum(1)
        of_keys = sums[..., None] * rows.of(heads)[:, -1:].to(k.dtype)
        of_keys = of_keys.unflatten(0, (-1, shared)).sum(1)
        grad_k[:, far].add_(of_keys, alpha=scale)
        add_rows(grad_rows, sums[:, None] @ keys, grad_rows.shape[1] - 1, scale)


def add_rows(total: Tensor, part: Tensor, start: int, scale: float) -> None:
    """total[:, clamp(start + i)] += scale * part[:, i], summed over heads where they share it."""
    part = part if total.shape[0] > 1 or part.shape[0] == 1 else part.sum(0, keepdim=True)
    last, count = total.shape[1] - 1, part.shape[1]
    below = min(max(-start, 0), count)
    above = min(max(last - start, below), count)
    if below:
        total[:, 0].add_(part[:, :below].sum(1), alpha=scale)
    if below < above:
        total[:, start + below : start + above].add_(part[:, below:above], alpha=scale)
    if above < count:
        total[:, last].add_(part[:, above:].sum(1), alpha=scale)


def _runs(tile: Tile, rows: Rows) -> Iterator[Runs]:
    """Keys of which some query is less far than the first vector, and some than the last."""
    left = max(tile.left, tile.start + tile.shift - rows.zero + 1)
    right = min(tile.right, tile.stop - 1 + tile.shift + rows.last)
    whole = left + max(0, right - left) // RUN * RUN
    if left < whole:
        yield Runs(tile, left, whole, RUN)
    if whole < right:
        yield Runs(tile, whole, right, right - whole)


def _far(tile: Tile, rows: Rows) -> slice:
    """Keys of which every query is as far as the last vector, or farther."""
    left = max(tile.left, tile.stop - 1 + tile.shift + rows.last)
    return slice(left, max(left, tile.right))
