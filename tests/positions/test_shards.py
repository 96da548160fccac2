"""Shards of Positions: all meetings of ranks together are the whole, and nothing else."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import posenc as pe
from posenc import Positions, PositionsError
from posenc.mask_rules import Chunk, Prefix, Sink, Window
from posenc.positions.plans import PLANS
from tests.positions.test_positions import documents, masks

RULES = [[], [Window(3)], [Window(2), Sink(1)], [Prefix(2)], [Chunk(3)]]


def mixed(tokens: int, size: int) -> Tensor:
    """A plan of a user: some permutation of the tokens."""
    order = torch.randperm(tokens, generator=torch.Generator().manual_seed(tokens))
    return order.view(size, -1)


@st.composite
def arrangements(draw: st.DrawFn) -> dict[str, Any]:
    size = draw(st.integers(1, 4))
    batch, length = draw(st.integers(1, 2)), 2 * size * draw(st.integers(1, 3))
    said: dict[str, Any] = {"k_len": length, "causal": draw(st.booleans())}
    if draw(st.booleans()):
        said["attention_mask"] = draw(masks(batch, length))
    if draw(st.booleans()):
        said["documents"] = draw(documents(batch, length))
    if draw(st.booleans()):
        ids = st.lists(st.integers(0, 50), min_size=length, max_size=length)
        said["ids"] = [draw(ids) for _ in range(batch)]
    elif draw(st.booleans()):
        said["start"] = 2
    return {"size": size, "plan": draw(st.sampled_from([*PLANS, mixed])), "said": said}


def built(said: dict[str, Any]) -> Positions:
    tensors = {name: torch.tensor(x) for name, x in said.items() if isinstance(x, list)}
    return Positions.build(**(said | tensors))


def told(positions: Positions) -> list[Tensor]:
    """Everything that meetings of these queries and keys are read for, (b, tq, tk) each."""
    seen = [positions.visible(rules) for rules in RULES]
    lengths = positions.lengths()
    pairs = [
        positions.distance(),
        positions.order_distance(),
        *(torch.ones(1, 1, 1, 1, dtype=torch.bool) if x is None else x for x in seen),
        lengths[0][:, None, :, None],
        lengths[1][:, None, None, :],
    ]
    shape = (positions.batch, 1, positions.q_len, positions.k_len)
    return [x.expand(shape)[:, 0].long() for x in pairs]


@given(arrangements())
def test_each_pair_is_in_one_meeting_and_what_it_is_in_the_whole(drawn: dict[str, Any]) -> None:
    size, plan, whole = drawn["size"], drawn["plan"], built(drawn["said"])
    expected = told(whole)
    tokens = torch.arange(whole.k_len)
    met = torch.zeros(whole.k_len, whole.k_len, dtype=torch.int64)
    for rank in range(size):
        mine = whole.shard(rank, size, plan)
        rows = pe.shard(tokens, rank, size, plan, dim=0)
        assert (mine.causal, mine.unit_step, mine.bound) == (
            whole.causal,
            whole.unit_step,
            whole.bound,
        )
        for other in range(size):
            columns = pe.shard(tokens, other, size, plan, dim=0)
            meeting = mine.with_keys(whole.shard(other, size, plan).keys)
            for found, of_whole in zip(told(meeting), expected, strict=True):
                block = of_whole[:, rows][:, :, columns]
                assert torch.equal(found.expand_as(block), block)
            met[rows[:, None], columns] += 1
    assert met.eq(1).all()


@given(arrangements())
def test_shards_put_together_are_the_whole(drawn: dict[str, Any]) -> None:
    size, plan, whole = drawn["size"], drawn["plan"], built(drawn["said"])
    x = torch.randn(2, 3, whole.k_len, 2)
    parts = [pe.shard(x, rank, size, plan, dim=2) for rank in range(size)]
    assert torch.equal(pe.unshard(parts, plan, dim=2), x)
    again = Positions.unshard([whole.shard(rank, size, plan) for rank in range(size)], plan)
    for held, of_whole in ((again.queries, whole.ordered().queries), (again.keys, whole.keys)):
        for name in ("position", "document", "length", "valid"):
            found, expected = getattr(held, name), getattr(of_whole, name)
            assert found is expected is None or torch.equal(found, expected)
    for found, expected in zip(told(again), told(whole), strict=True):
        assert torch.equal(found, expected)


def test_shards_of_shards_cut_twice() -> None:
    ids = torch.arange(48).view(1, 16, 3)
    whole = Positions.build(ids=ids, documents=torch.arange(16) // 6)
    twice = whole.shard(1, 2, "striped").shard(0, 2, "zigzag")
    index = torch.arange(16)[1::2][[0, 1, 6, 7]]
    assert torch.equal(twice.keys.position, ids[:, index])
    order = whole.keys.order
    assert order is not None
    assert torch.equal(twice.queries.order, order[index])


def pairs_of_ranks(plan: str, tokens: int, size: int) -> list[int]:
    """How many pairs each rank computes under causality."""
    whole = Positions.build(tokens, causal=True)
    keys = whole.ordered().keys
    loads = []
    for rank in range(size):
        seen = whole.shard(rank, size, plan).with_keys(keys).visible()
        assert seen is not None
        loads.append(int(seen.sum()))
    return loads


def test_zigzag_gives_every_rank_the_same_causal_work() -> None:
    assert pairs_of_ranks("zigzag", 64, 4) == [520] * 4
    assert pairs_of_ranks("contiguous", 64, 4) == [136, 392, 648, 904]
    assert pairs_of_ranks("striped", 64, 4) == [496, 512, 528, 544]


REFUSED = {
    "10 tokens are not a multiple of 8: pad to 16": lambda whole: whole.shard(0, 4, "zigzag"),
    "10 tokens are not a multiple of 4: pad to 12": lambda whole: whole.shard(0, 4),
    r"rank=2, size=2\): 0 <= rank < size": lambda whole: whole.shard(2, 2),
    r"rank=0, size=0\): 0 <= rank < size": lambda whole: whole.shard(0, 0),
    "no plan is called 'zig': did you mean 'zigzag'": lambda whole: whole.shard(0, 2, "zig"),
    r"gave \(10,\) of torch.int64.*one row per rank, \(2, 5\)": lambda whole: whole.shard(
        0, 2, lambda tokens, size: torch.arange(tokens)
    ),
    "does not give each of 10 tokens": lambda whole: whole.shard(
        0, 2, lambda tokens, size: torch.zeros(2, 5, dtype=torch.int64)
    ),
    "document 1: .* 4 tokens are not a multiple of 6: pad to 6": lambda whole: whole.shard(
        0, 3, pe.PerDocument([6, 4])
    ),
    "9 tokens in all, but the sequence has 10": lambda whole: whole.shard(
        0, 3, pe.PerDocument([6, 3])
    ),
    "1 queries and 10 keys: .* sharded caches": lambda whole: Positions.build(1, past=9).shard(
        0, 2
    ),
    "order of a side is counted": lambda whole: whole.with_keys(whole.keys),
}


# A check of types would come before the library's own.
@pytest.mark.unchecked
@pytest.mark.parametrize("said", REFUSED)
def test_what_cannot_be_cut_says_why(said: str) -> None:
    with pytest.raises((PositionsError, pe.UnknownNameError), match=said):
        REFUSED[said](Positions.build(10, causal=True))
