"""Tiles: some queries against a run of keys, in a buffer whose diagonals can be read as columns.

The scores of a tile with `rows` queries and `columns` keys lie in rows of `width` numbers. Read
from `rows - 1` numbers earlier with a step of width + 1, the same memory has one column per
distance:

    diagonals[r, y] = scores[r, y - (rows - 1) + r],   distance = first + y

so that a table of distances is added as a broadcast row, its gradient is a sum over rows, and a
product with vectors per distance is one matrix product, without an index matrix. Where the column
of a pair lies outside of the tile, the step would meet a neighbour in memory: such places hold
hidden pairs, or columns beyond the keys.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

# Scores of one tile: 4 MiB of float32, so that its buffers stay in the cache.
SCORES = 2**20
ROWS = 128


@dataclass(frozen=True)
class Tile:
    """Queries start .. stop against keys left .. right.

    shift   how many more keys there are than queries: distance is key - query - shift
    corner  the last key is the last query itself, and no query sees a later key
    """

    start: int
    stop: int
    left: int
    right: int
    shift: int
    corner: bool

    @property
    def rows(self) -> int:
        return self.stop - self.start

    @property
    def columns(self) -> int:
        return self.right - self.left

    @property
    def width(self) -> int:
        """Numbers per row of scores."""
        return max(self.columns, self.rows) if self.corner else self.columns + self.rows - 1

    @property
    def distances(self) -> int:
        return self.columns if self.corner else self.columns + self.rows - 1

    @property
    def first(self) -> int:
        """The least distance, that of the last query to the first key."""
        return self.left - (self.stop - 1) - self.shift

    def size(self, heads: int) -> int:
        """Numbers in the memory of scores; each head has one more row, which keeps them apart."""
        return self.rows - 1 + heads * (self.rows + 1) * self.width

    def scores(self, memory: Tensor, heads: int) -> Tensor:
        """(heads, rows + 1, width) of the memory; the last row is of no query."""
        shape = (heads, self.rows + 1, self.width)
        strides = ((self.rows + 1) * self.width, self.width, 1)
        return memory.as_strided(shape, strides, self.rows - 1)

    def diagonals(self, memory: Tensor, heads: int) -> Tensor:
        """(heads, rows, distances) of the same memory."""
        shape = (heads, self.rows, self.distances)
        strides = ((self.rows + 1) * self.width, self.width + 1, 1)
        return memory.as_strided(shape, strides, 0)

    def between(self, low: int, high: int) -> slice:
        """Columns of `diagonals` with low <= distance < high."""
        ends = (min(max(at - self.first, 0), self.distances) for at in (low, high))
        return slice(*ends)


@dataclass(frozen=True)
class Sight:
    """Who sees whom, for one row of the batch, as tensors over tokens; see `Positions.visible`."""

    q_len: int
    k_len: int
    causal: bool
    window: int | None
    sinks: int
    prefix: int
    k_order: Tensor | None
    q_document: Tensor | None
    k_document: Tensor | None
    k_valid: Tensor | None

    @property
    def shift(self) -> int:
        return self.k_len - self.q_len

    def tiles(self, rows: int) -> Iterator[Tile]:
        """Tiles that hold every visible pair; queries that see nothing may have none."""
        causal = self.causal and not self.prefix
        documents = self._documents()
        low, high = self._valid()
        for start in range(0, self.q_len, rows):
            stop = min(start + rows, self.q_len)
            left, right = low, high
            first, last = start + self.shift, stop - 1 + self.shift
            if causal:
                right = min(right, last + 1)
            if self.window is not None and not self.sinks:
                left = max(left, first - self.window + 1)
                right = min(right, last + self.window)
            if documents is not None:
                left, right = max(left, documents[0][first]), min(right, documents[1][last])
            if left < right:
                corner = causal and right == last + 1
                yield Tile(start, stop, left, right, self.shift, corner)

    def hidden(self, tile: Tile, device: torch.device) -> Tensor | None:
        """True for pairs of the tile that do not see each other, (rows, columns); None: no pair."""
        at = torch.arange(tile.start + self.shift, tile.stop + self.shift, device=device)[:, None]
        keys = torch.arange(tile.left, tile.right, device=device)
        order = keys if self.k_order is None else self.k_order[tile.left : tile.right]
        parts = []
        if self.causal:
            future = keys > at
            parts.append(future & (order >= self.prefix) if self.prefix else future)
        if self.window is not None:
            far = keys <= at - self.window
            if not self.causal or self.prefix:
                far = far | (keys >= at + self.window)
            parts.append(far & (order >= self.sinks) if self.sinks else far)
        if self.q_document is not None and self.k_document is not None:
            of_queries = self.q_document[tile.start : tile.stop, None]
            parts.append(of_queries != self.k_document[tile.left : tile.right])
        if self.k_valid is not None:
            parts.append(~self.k_valid[tile.left : tile.right])
        hidden = None
        for part in parts:
            hidden = part if hidden is None else hidden | part
        return hidden

    @property
    def triangular(self) -> bool:
        """Causality is all there is."""
        others = (self.window, self.k_document, self.k_valid)
        return self.causal and not self.prefix and all(other is None for other in others)

    def _documents(self) -> tuple[list[int], list[int]] | None:
        """The first key and the end of the document of each key; None where they are mixed."""
        if self.k_document is None:
            return None
        numbers, counts = torch.unique_consecutive(self.k_document, return_counts=True)
        if len(numbers.unique()) < len(numbers):
            return None
        ends = counts.cumsum(0)
        spread = [x.repeat_interleave(counts).tolist() for x in (ends - counts, ends)]
        return spread[0], spread[1]

    def _valid(self) -> tuple[int, int]:
        if self.k_valid is None:
            return 0, self.k_len
        real = self.k_valid.nonzero()
        return (int(real[0]), int(real[-1]) + 1) if len(real) else (0, 0)
