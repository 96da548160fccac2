"""Checks of who sees whom, against rules that are written here once more, in plain comparisons."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from posenc.encoding import Encoding, Visible
from posenc.encodings.sinks import Sinks
from posenc.encodings.sliding_window import SlidingWindow
from posenc.errors import CheckError
from posenc.lowering import Part
from posenc.mask_rules import Prefix
from posenc.positions import Positions, Tokens
from posenc.terms import Mask
from posenc.testing.fixtures import LENGTH, Trial, attends, causalities, hides, terms_of, when
from posenc.testing.paper import pairs_for

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

    def __str__(self) -> str:
        return f"{self.name}, causal={self.positions.causal}"

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


def arrangements(encoding: Encoding) -> Iterator[Arrangement]:
    """Every way in which tokens come that this encoding takes: causal, and not where it may."""
    for causal in causalities(encoding):
        yield from _arranged(causal)


def _arranged(causal: bool) -> Iterator[Arrangement]:
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


@when(attends)
def check_reference_visible(encoding: Encoding) -> None:
    """It hides the pairs that the paper hides and no others, however the tokens come."""
    for arrangement in arrangements(encoding):
        orders, count = arrangement.orders, arrangement.positions.q_len
        trial = Trial.of(encoding, count, LENGTH)
        pairs = pairs_for(trial.q, arrangement.positions)
        pairs = replace(pairs, q_order=orders[:, -count:], k_order=orders)
        _require_visible(trial, [], arrangement, encoding.reference_visible(pairs))


@when(lambda e: attends(e) and not hides(e))
def check_masks(encoding: Encoding) -> None:
    """Windows, sinks and prefixes beside it hide exactly the keys that they should."""
    masks: list[Part] = [SlidingWindow(5), SlidingWindow(3), Sinks(1)]
    # A table that ends with the longest past distance refuses what a prefix shows of the future.
    ends = any(not getattr(term, "saturates", True) for term in terms_of(encoding))
    for arrangement in arrangements(encoding):
        trial = Trial.of(encoding, arrangement.positions.q_len, LENGTH)
        order = arrangement.orders[:, None, None, :]
        q_order = order[..., -arrangement.positions.q_len :].mT
        rule = ((q_order - order).abs() < 3) | (order < 1)
        _require_visible(trial, masks, arrangement, rule)
        if not ends:
            _require_visible(trial, [*masks, Mask(Prefix(4))], arrangement, rule, prefix=4)


def _require_visible(
    trial: Trial, masks: list[Part], arrangement: Arrangement, rule: Visible, prefix: int = 0
) -> None:
    visible = trial.scores(*masks, positions=arrangement.positions) > -torch.inf
    expected = arrangement.visible(rule, prefix)
    # What padding sees is nobody's business.
    real = arrangement.documents[:, -arrangement.positions.q_len :] >= 0
    wrong = ((visible != expected) & real[:, None, :, None]).nonzero().tolist()
    if wrong:
        row, head, i, j = wrong[0]
        seen = "hidden from" if expected[row, 0, i, j] else "seen by"
        raise CheckError(
            f"{arrangement}: key {j} is {seen} query {i} in row {row}, head {head}: one of "
            f"{len(wrong)} wrong pairs"
        )
