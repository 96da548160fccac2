"""Checks of who sees whom, against rules that are written here once more, in plain comparisons."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from posenc.analysis.probe_context import context_for
from posenc.attention import attend, scores
from posenc.encoding import Encoding, Pairs, Visible
from posenc.encodings.sinks import Sinks
from posenc.encodings.sliding_window import SlidingWindow
from posenc.errors import CheckError
from posenc.lowering import Part
from posenc.positions import Positions, Tokens
from posenc.terms import Mask, Prefix
from posenc.testing.fixtures import (
    LENGTH,
    attends,
    backends_for,
    causalities,
    copy_of,
    hides,
    pairs_for,
    qkv,
    require_close,
    terms_of,
    when,
)

FAR = 1_000_000


@dataclass(frozen=True)
class Arrangement:
    """Tokens as they come, with the order and document of each, in two rows, counted by hand.

    The queries are the last tokens. Padding has document -1.
    """

    name: str
    positions: Positions
    orders: Int[Tensor, "2 tk"]
    documents: Int[Tensor, "2 tk"]

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
    """Every way in which tokens come that masks tell apart."""
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
        yield Arrangement(f"positions {ids.tolist()}", moved, rows, one)
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


def visible_by_the_paper(encoding: Encoding, positions: Positions, pairs: Pairs) -> Visible:
    """Who sees whom where nothing is padded or packed: `reference_visible`, and causality."""
    q_order, k_order = pairs.orders()
    visible = encoding.reference_visible(pairs)
    return visible & (k_order <= q_order) if positions.causal else visible


@when(attends)
def check_reference_visible(encoding: Encoding) -> None:
    """It hides the pairs that the paper hides and no others, however the tokens come."""
    made = copy_of(encoding)
    for causal in causalities(made):
        for arrangement in arrangements(causal):
            orders, count = arrangement.orders, arrangement.positions.q_len
            pairs = pairs_for(qkv(made, count)[0], arrangement.positions)
            pairs = replace(pairs, q_order=orders[:, -count:], k_order=orders)
            _require_visible([made], arrangement, made.reference_visible(pairs))


@when(lambda e: attends(e) and not hides(e))
def check_masks(encoding: Encoding) -> None:
    """Windows, sinks and prefixes beside it hide exactly the keys that they should."""
    made = copy_of(encoding)
    parts: list[Part] = [made, SlidingWindow(5), SlidingWindow(3), Sinks(1)]
    # A table that ends with the longest past distance refuses what a prefix shows of the future.
    ends = any(not getattr(term, "saturates", True) for term in terms_of(made))
    for causal in causalities(made):
        for arrangement in arrangements(causal):
            order = arrangement.orders[:, None, None, :]
            q_order = order[..., -arrangement.positions.q_len :].mT
            rule = ((q_order - order).abs() < 3) | (order < 1)
            _require_visible(parts, arrangement, rule)
            if not ends:
                _require_visible([*parts, Mask(Prefix(4))], arrangement, rule, prefix=4)


@when(lambda e: attends(e) and not hides(e))
def check_masks_in_backends(encoding: Encoding) -> None:
    """Beside windows and sinks every backend gives what the reference gives."""
    made = copy_of(encoding)
    parts = [made, SlidingWindow(5), SlidingWindow(3), Sinks(1)]
    context = context_for(made)
    for causal in causalities(made):
        for arrangement in arrangements(causal):
            if arrangement.name not in ("far orders", "packed and padded"):
                continue
            q, k, v = qkv(made)
            call = {"positions": arrangement.positions, "context": context}
            expected = attend(q, k, v, parts, **call, backend="reference")
            what = f"{arrangement.name}, causal={causal}"
            for name in backends_for(made):
                actual = attend(q, k, v, parts, **call, backend=name)
                require_close(actual, expected, 1e-9, f"{name}, {what}")


def _require_visible(
    parts: list[Part], arrangement: Arrangement, rule: Visible, prefix: int = 0
) -> None:
    encoding, positions = parts[0], arrangement.positions
    assert isinstance(encoding, Encoding)
    q, k, _ = qkv(encoding, positions.q_len, LENGTH)
    context = context_for(encoding)
    visible = scores(q, k, parts, positions=positions, context=context) > -torch.inf
    expected = arrangement.visible(rule, prefix)
    # What padding sees is nobody's business.
    real = arrangement.documents[:, -positions.q_len :] >= 0
    wrong = ((visible != expected) & real[:, None, :, None]).nonzero().tolist()
    if wrong:
        row, head, i, j = wrong[0]
        seen = "hidden from" if expected[row, 0, i, j] else "seen by"
        raise CheckError(
            f"{arrangement.name}, causal={positions.causal}: key {j} is {seen} query {i} "
            f"in row {row}, head {head}: one of {len(wrong)} wrong pairs"
        )
