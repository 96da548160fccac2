"""The attention weights of one tile, as forward and backward both need them."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from posenc.backends.blocked import columns
from posenc.backends.blocked.inputs import Inputs, Rows
from posenc.backends.blocked.tiles import ROWS, Sight, Tile

FAR = 2**62


@dataclass(frozen=True, eq=False)
class Group:
    """Some heads of one row of the batch, in the dtype of the arithmetic."""

    inputs: Inputs
    sight: Sight
    row: int
    heads: slice
    q: Tensor
    k: Tensor
    v: Tensor
    read_q: Tensor
    read_k: Tensor

    @classmethod
    def of(cls, inputs: Inputs, row: int, key_heads: slice, heads: slice) -> "Group":
        q, k, v = inputs.q[row, heads], inputs.k[row, key_heads], inputs.v[row, key_heads]
        k, v = k.to(inputs.dtype), v.to(inputs.dtype)
        read_q = q if inputs.read_q is None else inputs.read_q[row, heads]
        read_k = k
        if inputs.read_k is not None:
            read_k = inputs.read_k[row, key_heads].to(inputs.dtype)
        return cls(inputs, inputs.sight(row), row, heads, q, k, v, read_q, read_k)

    @property
    def count(self) -> int:
        """Query heads."""
        return self.q.shape[0]

    def matrix(self, scores: Tensor) -> Tensor:
        """Query heads that share a key head as rows of one matrix."""
        return scores.view(self.k.shape[0], -1, scores.shape[-1])

    @cached_property
    def future(self) -> Tensor:
        """Of as many queries and keys, keys that come later."""
        return torch.ones(ROWS, ROWS, dtype=torch.bool, device=self.q.device).triu_(1)

    def queries(self, tile: Tile) -> tuple[Tensor, Tensor]:
        """The queries of a tile, and what tables of vectors read of them; see `padded`."""
        q = self.padded(self.q, tile)
        return q, q if self.read_q is self.q else self.padded(self.read_q, tile)

    def padded(self, x: Tensor, tile: Tile) -> Tensor:
        """The queries of a tile (heads, rows + 1, d), with a row of zeros for the row of none."""
        out = torch.empty(
            (x.shape[0], tile.rows + 1, x.shape[2]), dtype=self.inputs.dtype, device=x.device
        )
        out[:, :-1] = x[:, tile.start : tile.stop]
        out[:, -1] = 0
        return out


def weights(group: Group, tile: Tile, q: Tensor, read_q: Tensor, memory: Tensor) -> Tensor:
    """softmax of the scores of a tile, (heads, rows + 1, width), in this memory.

    Zero where nothing is seen and beyond the columns; of the last row of each head, which is of no
    query, nothing is said.
    """
    inputs, n = group.inputs, group.count
    scores, diagonals = tile.scores(memory, n), tile.diagonals(memory, n)
    if inputs.table is not None:
        table = _of_heads(inputs.table, group.heads)[:, None, entries(inputs, tile)]
        diagonals.copy_(table)
    product = group.matrix(scores)[..., : tile.columns]
    keys = group.k[:, tile.left : tile.right].mT
    beta = 0 if inputs.table is None else 1
    product.baddbmm_(group.matrix(q), keys, beta=beta, alpha=inputs.scale)
    for rows in inputs.q_rows:
        near, weight, far, last = spans(rows, tile, group.heads)
        if near.start < near.stop:
            weight = weight.to(q.dtype).expand(n, -1, -1)
            diagonals[..., near].baddbmm_(read_q[:, :-1], weight.mT, alpha=inputs.scale)
        if far.start < far.stop:
            bias = read_q[:, :-1] @ last.to(q.dtype).mT
            diagonals[..., far].add_(bias, alpha=inputs.scale)
    for rows in inputs.k_rows:
        columns.add(scores, group.read_k, tile, rows, group.heads, inputs.scale)
    if inputs.key_bias is not None:
        scores[..., : tile.columns] += key_bias(group, tile)
    empty = _hide(group, tile, scores)
    torch.softmax(scores, -1, out=scores)
    if empty is not None:
        scores[:, :-1].masked_fill_(empty, 0)
    return scores


def key_bias(group: Group, tile: Tile) -> Tensor:
    """(heads, 1, columns), counted from the last key, so that large biases keep their digits."""
    given = group.inputs.key_bias
    assert given is not None
    bias = given[group.row % given.shape[0], group.heads, None, tile.left : tile.right]
    last = bias[..., -1:]
    bias = bias - torch.where(last.isfinite(), last, 0)
    return bias.to(group.inputs.dtype)


def spans(rows: Rows, tile: Tile, heads: slice) -> tuple[slice, Tensor, slice, Tensor]:
    """Columns of the diagonals with vectors of their own, these, and columns that share the last.

    Columns before them are too far in the past, and share the first vector.
    """
    near = tile.between(-rows.zero, rows.last)
    start = tile.first + near.start + rows.zero
    table = rows.of(heads)
    own = table[:, start : start + near.stop - near.start]
    return near, own, tile.between(rows.last, FAR), table[:, -1:]


def _hide(group: Group, tile: Tile, scores: Tensor) -> Tensor | None:
    """Scores of pairs that do not see each other to -inf; rows that see nothing, or None."""
    inputs, sight = group.inputs, group.sight
    if tile.columns < tile.width:
        scores[..., tile.columns :] = -torch.inf
    seen = scores[:, :-1, : tile.columns]
    hidden = None
    if sight.triangular and tile.columns >= tile.rows:
        future = group.future[: tile.rows, : tile.rows]
        seen[..., tile.columns - tile.rows :].masked_fill_(future, -torch.inf)
    else:
        hidden = sight.hidden(tile, scores.device)
    if hidden is not None:
        seen.masked_fill_(hidden, -torch.inf)
    if inputs.infinite:
        return seen.amax(-1, keepdim=True) == -torch.inf
    return None if hidden is None else hidden.expand(seen.shape[1:]).all(-1, keepdim=True)


def entries(inputs: Inputs, tile: Tile) -> slice:
    """Where the distances of a tile stand in the table."""
    start = tile.first + inputs.k.shape[2] - 1
    return slice(start, start + tile.distances)


def _of_heads(table: Tensor, heads: slice) -> Tensor:
    return table if table.shape[0] == 1 else table[heads]
