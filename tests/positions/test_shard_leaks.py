"""Packed documents on several ranks: each is what it is alone, whichever ranks hold its tokens."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import Positions
from posenc.positions.plans import PLANS, Plan
from tests.support.oracles import drawing

LENGTHS = [6, 1, 9, 8]
SIZE = 4

# What reads positions, orders, lengths of the input, and the first tokens of a document.
ENCODINGS: dict[str, Callable[[], pe.Encoding | list[pe.Encoding]]] = {
    "positions": lambda: pe.Rotary(16),
    "distances": lambda: pe.ALiBi(2),
    "length": lambda: pe.Rotary(16, scaling=pe.DynamicNTK(2.0, 4)),
    "first tokens": lambda: [pe.Rotary(16), pe.SlidingWindow(3), pe.Sinks(2)],
    "queries' positions": lambda: pe.Temperature("log_n", 4),
}


def uneven(tokens: int, size: int) -> Tensor:
    return torch.arange(tokens).flip(0).view(size, -1)


def by_ranks(
    q: Tensor, k: Tensor, v: Tensor, parts: object, whole: Positions, plan: str | Plan
) -> Tensor:
    """Attention of all ranks: scores of each meeting, softmax over all of them, in whole order."""
    outputs = []
    for rank in range(SIZE):
        mine = whole.shard(rank, SIZE, plan)
        own = pe.shard(q, rank, SIZE, plan, dim=2)
        scores, values = [], []
        for other in range(SIZE):
            meeting = mine.with_keys(whole.shard(other, SIZE, plan).keys)
            theirs = pe.shard(k, other, SIZE, plan, dim=2)
            scores.append(pe.scores(own, theirs, parts, positions=meeting))
            values.append(pe.shard(v, other, SIZE, plan, dim=2))
        p = torch.cat(scores, dim=-1).softmax(dim=-1)
        outputs.append(p @ torch.cat(values, dim=2))
    return pe.unshard(outputs, plan, dim=2)


@pytest.mark.parametrize("plan", [*PLANS, uneven])
@pytest.mark.parametrize("reads", ENCODINGS)
def test_a_document_on_several_ranks_is_what_it_is_alone(reads: str, plan: str | Plan) -> None:
    parts, draw = ENCODINGS[reads](), drawing()
    q, k, v = (draw(1, 2, sum(LENGTHS), 16) for _ in range(3))
    found = by_ranks(q, k, v, parts, Positions.build(lengths=LENGTHS, causal=True), plan)
    documents = zip(*(x.split(LENGTHS, dim=2) for x in (q, k, v)), strict=True)
    alone = [pe.attend(*x, parts, causal=True, backend="reference") for x in documents]
    torch.testing.assert_close(found, torch.cat(alone, dim=2), rtol=0, atol=1e-10)


@pytest.mark.parametrize("plan", [*PLANS, pe.PerDocument([8, 16])])
def test_padding_between_documents_reaches_nobody(plan: str | Plan) -> None:
    """Each document is padded to a multiple of 8; what pads it is a document of its own."""
    lengths, draw = [5, 3, 13, 3], drawing()
    real = torch.tensor([True, False, True, False]).repeat_interleave(torch.tensor(lengths))
    q, k, v = (draw(1, 2, 24, 16) for _ in range(3))
    whole = Positions.build(lengths=lengths, causal=True)
    found = by_ranks(q, k, v, pe.Rotary(16), whole, plan)[:, :, real]
    spoiled = [torch.where(real[:, None], x, 1e3) for x in (q, k, v)]
    again = by_ranks(*spoiled, pe.Rotary(16), whole, plan)[:, :, real]
    assert torch.equal(found, again)


@pytest.mark.parametrize("plan", PLANS)
def test_padded_rows_on_several_ranks_are_what_they_are_alone(plan: str) -> None:
    lengths, draw = [24, 17, 5], drawing()
    parts = pe.Rotary(16, scaling=pe.DynamicNTK(2.0, 4))
    q, k, v = (draw(3, 2, 24, 16) for _ in range(3))
    mask = torch.arange(24) < torch.tensor(lengths)[:, None]
    found = by_ranks(q, k, v, parts, Positions.build(attention_mask=mask, causal=True), plan)
    for row, length in enumerate(lengths):
        own = [x[row : row + 1, :, :length] for x in (q, k, v)]
        alone = pe.attend(*own, parts, causal=True, backend="reference")
        torch.testing.assert_close(found[row : row + 1, :, :length], alone, rtol=0, atol=1e-10)


@pytest.mark.parametrize("backend", ["auto", "blocked"])
def test_a_part_that_comes_back_to_a_document_keeps_its_distances(backend: str) -> None:
    """Rank 0 has another document between two parts of one, as plans by work cut them."""

    def plan(tokens: int, size: int) -> torch.Tensor:
        return torch.tensor([[0, 1, 4, 5, 2, 3], [6, 7, 8, 9, 10, 11]])

    mine = Positions.build(lengths=[4, 8], causal=True).shard(0, 2, plan)
    assert not mine.aligned
    draw = drawing()
    q, k, v = (draw(1, 2, 6, 16) for _ in range(3))
    expected = pe.attend(q, k, v, pe.ALiBi(2), positions=mine, backend="reference")
    found = pe.attend(q, k, v, pe.ALiBi(2), positions=mine, backend=backend)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
