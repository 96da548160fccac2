"""Every way in which tokens come, with the order and document of each counted by hand."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from posenc.positions import Positions, Tokens
from posenc.testing.fixtures import LENGTH

FAR = 1_000_000


@dataclass(frozen=True)
class Arrangement:
    """Tokens as they come, with the order and document of each, in two rows, counted by hand.

    The queries are the last tokens. Padding has document -1. Positions are `aligned` where they are
    as far apart as orders.
    """

    name: str
    positions: Positions
    orders: Int[Tensor, "2 tk"]
    documents: Int[Tensor, "2 tk"]
    aligned: bool = True

    def visible(
        self, rule: Bool[Tensor, "#b 1 tq tk"], prefix: int = 0
    ) -> Bool[Tensor, "2 1 tq tk"]:
        """Who sees whom if `rule` says so, and causality, but for a prefix, and documents do."""
        queries = slice(-self.positions.q_len, None)
        order, document = self.orders[:, None, None, :], self.documents[:, None, None, :]
        visible = rule & (document >= 0) & (document == document[..., queries].mT)
        if self.positions.causal:
            visible = visible & ((order <= order[..., queries].mT) | (order < prefix))
        return visible


def arrangements(causal: bool) -> Iterator[Arrangement]:
    """Plain, the last queries, moved positions and orders, padded, packed, and both of these."""
    counted = torch.arange(LENGTH)
    rows, one = counted.expand(2, -1), torch.zeros(2, LENGTH, dtype=torch.int64)
    plain = Positions.build(LENGTH, causal=causal)
    yield Arrangement("plain", plain, rows, one)
    for count in (4, 1):
        last = Positions.build(count, LENGTH, causal=causal)
        yield Arrangement(f"the last {count}", last, rows, one)
    tied = torch.tensor([0, 4, 1, 1, 9, 2, 3, 8, 5])
    for ids in (tied, torch.zeros_like(tied), counted.flip(0)):
        moved = Positions.build(ids=ids, causal=causal)
        yield Arrangement(f"positions {ids.tolist()}", moved, rows, one, aligned=False)
    tokens = Tokens(counted, order=FAR + counted)
    far = replace(plain, queries=tokens, keys=tokens)
    yield Arrangement("far orders", far, FAR + rows, one)
    padding = torch.tensor([[-1, -1, -1, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, -1, -1, -1]])
    orders = torch.tensor([[0, 0, 0, 0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5, 0, 0, 0]])
    padded = Positions.build(attention_mask=padding >= 0, causal=causal)
    yield Arrangement("padded", padded, orders, padding)
    documents = torch.tensor([[0, 0, 1, 2, 2, 2, 2, 2, 2]]).expand(2, -1)
    orders = torch.tensor([[0, 1, 0, 0, 1, 2, 3, 4, 5]]).expand(2, -1)
    packed = Positions.build(lengths=[2, 1, 6], causal=causal)
    yield Arrangement("packed", packed, orders, documents)
    documents = torch.tensor([[0, 0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1, 1, 1, 1]])
    orders = torch.tensor([[0, 1, 2, 3, 4, 0, 1, 2, 3], [0, 1, 0, 1, 2, 3, 4, 5, 6]])
    valid = (counted < LENGTH - 1).repeat(2, 1)
    both = Positions.build(documents=documents, attention_mask=valid, causal=causal)
    documents = documents.masked_fill(~valid, -1)
    yield Arrangement("packed and padded", both, orders, documents)
