"""Attention and its gradients, tile by tile."""

from dataclasses import dataclass

import torch
from torch import Tensor

from posenc.backends.blocked import columns
from posenc.backends.blocked.columns import add_rows
from posenc.backends.blocked.inputs import Inputs, Rows
from posenc.backends.blocked.tiles import Tile
from posenc.backends.blocked.weights import Group, entries, spans, weights


@dataclass(frozen=True, eq=False)
class Grads:
    """Gradients of what Inputs hold; those of tables in the dtype of the arithmetic."""

    q: Tensor
    k: Tensor
    v: Tensor
    read_q: Tensor | None
    read_k: Tensor | None
    table: Tensor | None
    key_bias: Tensor | None
    q_rows: tuple[Tensor, ...]
    k_rows: tuple[Tensor, ...]
    v_rows: tuple[Tensor, ...]

    @classmethod
    def of(cls, inputs: Inputs, table: bool) -> "Grads":
        def zeros(x: Tensor | None) -> Tensor | None:
            return None if x is None else torch.zeros_like(x)

        def rows(tables: tuple[Rows, ...]) -> tuple[Tensor, ...]:
            return tuple(torch.zeros_like(t.weight, dtype=inputs.dtype) for t in tables)

        return cls(
            q=torch.zeros_like(inputs.q),
            k=torch.zeros_like(inputs.k),
            v=torch.zeros_like(inputs.v),
            read_q=zeros(inputs.read_q),
            read_k=zeros(inputs.read_k),
            table=zeros(inputs.table) if table else None,
            key_bias=zeros(inputs.key_bias),
            q_rows=rows(inputs.q_rows),
            k_rows=rows(inputs.k_rows),
            v_rows=rows(inputs.v_rows),
        )


def forward(inputs: Inputs) -> Tensor:
    """The output (b, h, tq, d_v), in v's dtype."""
    out = inputs.v.new_zeros(*inputs.q.shape[:3], inputs.v.shape[3])
    rows, together = inputs.sizes()
    generator, memory = inputs.generator(), None
    for row, key_heads, heads in inputs.groups(together):
        group = Group.of(inputs, row, key_heads, heads)
        tiles = list(group.sight.tiles(rows))
        memory = _memory(group, tiles, memory)
        for tile in tiles:
            q, read_q = group.queries(tile)
            p = weights(group, tile, q, read_q, memory)
            if generator is not None:
                p.mul_(_kept(p, inputs.dropout, generator))
            part = group.matrix(p)[..., : tile.columns] @ group.v[:, tile.left : tile.right]
            part = part.view(group.count, -1, part.shape[-1])[:, :-1]
            for table in inputs.v_rows:
                part += _valued(group, tile, table, memory)
            out[row, heads, tile.start : tile.stop] = part
    return out


def backward(inputs: Inputs, grad: Tensor, table: bool) -> Grads:
    """Gradients of all inputs, of the table if it is wanted."""
    grads = Grads.of(inputs, table)
    rows, together = inputs.sizes()
    generator, memory, spare = inputs.generator(), None, None
    for row, key_heads, heads in inputs.groups(together):
        group = Group.of(inputs, row, key_heads, heads)
        tiles = list(group.sight.tiles(rows))
        memory, spare = _memory(group, tiles, memory), _memory(group, tiles, spare)
        # With the tokens last: sums over a few queries write longer rows, which is faster.
        of_k, of_v = (x.mT.new_zeros(x.mT.shape) for x in (group.k, group.v))
        of_read_k = of_k if inputs.read_k is None else torch.zeros_like(of_k)
        for tile in tiles:
            q, read_q = group.queries(tile)
            p = weights(group, tile, q, read_q, memory)
            # Of no query: without it the products below need no care.
            p[:, -1] = 0
            kept = None if generator is None else _kept(p, inputs.dropout, generator)
            given = group.padded(grad[row, heads], tile)
            _of_values(group, tile, p, kept, given, of_v, memory, grads)
            _of_weights(group, tile, kept, given, spare)
            scores = tile.scores(spare, group.count)
            ds = torch.ops.aten._softmax_backward_data.out(
                scores, p, -1, scores.dtype, grad_input=scores
            )
            _of_scores(group, tile, ds, spare, q, read_q, of_k, of_read_k, grads)
        grads.k[row, key_heads] = of_k.mT
        grads.v[row, key_heads] = of_v.mT
        if grads.read_k is not None:
            grads.read_k[row, key_heads] = of_read_k.mT
    return grads


def _memory(group: Group, tiles: list[Tile], held: Tensor | None) -> Tensor:
    """Room for the scores of each of these tiles; what is held, where it is large enough."""
    largest = max((tile.size(group.count) for tile in tiles), default=0)
    if held is not None and len(held) >= largest:
        return held
    return torch.empty(largest, dtype=group.k.dtype, device=group.k.device)


def _kept(p: Tensor, dropout: float, generator: torch.Generator) -> Tensor:
    """1 / (1 - dropout) where a weight is kept, else 0."""
    kept = torch.empty_like(p).bernoulli_(1 - dropout, generator=generator)
    return kept.div_(1 - dropout)


def _clean(tile: Tile, memory: Tensor, count: int) -> Tensor:
    """The diagonals of weights or of gradients, with zeros in place of pairs that are none."""
    memory[: tile.rows - 1] = 0
    tile.scores(memory, count)[:, -1] = 0
    return tile.diagonals(memory, count)


def _valued(group: Group, tile: Tile, rows: Rows, memory: Tensor) -> Tensor:
    """What a table adds to the output of a tile, (heads, rows, d_v)."""
    p, dtype = tile.scores(memory, group.count), memory.dtype
    diagonals = _clean(tile, memory, group.count)
    base = rows.of(group.heads)[:, :1].to(dtype)
    out = p[:, :-1].sum(-1, keepdim=True) * base
    near, weight, far, last = spans(rows, tile, group.heads)
    if near.start < near.stop:
        weight = (weight.to(dtype) - base).expand(group.count, -1, -1)
        out.baddbmm_(diagonals[..., near], weight)
    if far.start < far.stop:
        out += diagonals[..., far].sum(-1, keepdim=True) * (last.to(dtype) - base)
    return out


def _of_values(
    group: Group,
    tile: Tile,
    p: Tensor,
    kept: Tensor | None,
    given: Tensor,
    of_v: Tensor,
    memory: Tensor,
    grads: Grads,
) -> None:
    """Gradients of v and of value tables, from that of the output (heads, rows + 1, d_v)."""
    if kept is not None:
        used = torch.empty_like(memory)
        torch.mul(p, kept, out=tile.scores(used, group.count))
        p, memory = tile.scores(used, group.count), used
    inner = group.matrix(p)[..., : tile.columns]
    of_v[..., tile.left : tile.right].baddbmm_(group.matrix(given).mT, inner)
    for rows, total in zip(group.inputs.v_rows, grads.v_rows, strict=True):
        diagonals, rows_given = _clean(tile, memory, group.count), given[:, :-1]
        own = total if total.shape[0] == 1 else total[group.heads]
        near, _, far, _ = spans(rows, tile, group.heads)
        past = p[:, :-1].sum(-1, keepdim=True)
        if near.start < near.stop:
            weights = diagonals[..., near]
            add_rows(own, weights.mT @ rows_given, tile.first + near.start + rows.zero, 1.0)
            past = past - weights.sum(-1, keepdim=True)
        if far.start < far.stop:
            ahead = diagonals[..., far].sum(-1, keepdim=True)
            add_rows(own, ahead.mT @ rows_given, total.shape[1] - 1, 1.0)
            past = past - ahead
        add_rows(own, past.mT @ rows_given, 0, 1.0)


def _of_weights(
    group: Group, tile: Tile, kept: Tensor | None, given: Tensor, spare: Tensor
) -> None:
    """The gradient of the weights, into spare."""
    n, dtype = group.count, spare.dtype
    grad, diagonals = tile.scores(spare, n), tile.diagonals(spare, n)
    values = group.v[:, tile.left : tile.right].mT
    torch.bmm(group.matrix(given), values, out=group.matrix(grad)[..., : tile.columns])
    for rows in group.inputs.v_rows:
        base = rows.of(group.heads)[:, :1].to(dtype)
        near, weight, far, last = spans(rows, tile, group.heads)
        if near.start < near.stop:
            weight = (weight.to(dtype) - base).expand(n, -1, -1)
            diagonals[..., near].baddbmm_(given[:, :-1], weight.mT)
        if far.start < far.stop:
            diagonals[..., far] += given[:, :-1] @ (last.to(dtype) - base).mT
        # The same for every weight of a row: softmax sees it where dropout left some out only.
        if kept is not None:
            grad[:, :-1, : tile.columns] += given[:, :-1] @ base.mT
    if kept is not None:
        grad.mul_(kept)
    if tile.columns < tile.width:
        grad[..., tile.columns :] = 0


def _of_scores(
    group: Group,
    tile: Tile,
    ds: Tensor,
    memory: Tensor,
    q: Tensor,
    read_q: Tensor,
    of_k: Tensor,
    of_read_k: Tensor,
    grads: Grads,
) -> None:
    """Gradients of everything that the scores (heads, rows + 1, width) are made of."""
    inputs, n, scale = group.inputs, group.count, group.inputs.scale
    keys, queries = slice(tile.left, tile.right), slice(tile.start, tile.stop)
    diagonals = _clean(tile, memory, n)
    product = group.matrix(ds)[..., : tile.columns]
    of_k[..., keys].baddbmm_(group.matrix(q).mT, product, alpha=scale)
    of_q = (product @ group.k[:, keys]).view(q.shape)[:, :-1]
    of_read = of_q if grads.read_q is None else torch.zeros_like(of_q)
    for rows, total in zip(inputs.q_rows, grads.q_rows, strict=True):
        own = total if total.shape[0] == 1 else total[group.heads]
        near, weight, far, last = spans(rows, tile, group.heads)
        if near.start < near.stop:
            weight = weight.to(q.dtype).expand(n, -1, -1)
            of_read.baddbmm_(diagonals[..., near], weight)
            of_rows = diagonals[..., near].mT @ read_q[:, :-1]
            add_rows(own, of_rows, tile.first + near.start + rows.zero, scale)
        if far.start < far.stop:
            ahead = diagonals[..., far].sum(-1, keepdim=True)
            of_read += ahead * last.to(q.dtype)
            add_rows(own, ahead.mT @ read_q[:, :-1], total.shape[1] - 1, scale)
    for rows, total in zip(inputs.k_rows, grads.k_rows, strict=True):
        own = total if total.shape[0] == 1 else total[group.heads]
        columns.backward(ds, of_read_k.mT, own, group.read_k, tile, rows, group.heads, scale)
    torch.mul(of_q, scale, out=of_q)
    grads.q[group.row, group.heads, queries] = of_q
    if grads.read_q is not None:
        grads.read_q[group.row, group.heads, queries] = of_read * scale
    if grads.table is None and grads.key_bias is None:
        return
    ones = ds.new_ones(1, 1, tile.rows).expand(n, -1, -1)
    if grads.table is not None:
        sums = (ones @ diagonals)[:, 0]
        at = entries(inputs, tile)
        if grads.table.shape[0] == 1:
            grads.table[0, at] += sums.sum(0)
        else:
            grads.table[group.heads, at] += sums
    if grads.key_bias is not None:
        sums = (ones @ ds[:, :-1, : tile.columns])[:, 0]
        grads.key_bias[group.row % grads.key_bias.shape[0], group.heads, keys] += sums
