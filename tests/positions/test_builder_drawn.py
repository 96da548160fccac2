"""Positions that train a short input for a long one."""

import itertools
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import posenc as pe
from posenc import Positions


@settings(max_examples=30)
@given(
    lengths=st.lists(st.integers(1, 8), min_size=1, max_size=3),
    more=st.integers(0, 20),
    chunks=st.integers(1, 3),
    left=st.booleans(),
    seed=st.integers(0, 99),
)
def test_drawn_positions_rise_below_the_longest(
    lengths: list[int], more: int, chunks: int, left: bool, seed: int
) -> None:
    length = max(lengths)
    index = torch.arange(length)
    mask = torch.stack([(index >= length - n if left else index < n) for n in lengths])
    longest, chunks = length + more, min(chunks, length)
    said: dict[str, Any] = {"longest": longest, "attention_mask": mask, "causal": True}
    drawn = {}
    for draws in ("first", "again", "later"):
        generator = torch.Generator().manual_seed(seed + (draws == "later"))
        drawn[draws] = [
            Positions.random(**said, generator=generator),
            Positions.skipping(**said, chunks=chunks, generator=generator),
        ]
    for first, again in zip(drawn["first"], drawn["again"], strict=True):
        assert torch.equal(first.keys.position, again.keys.position)
    for at, skips in zip(drawn["first"], (length, chunks), strict=True):
        assert (at.bound, at.unit_step, at.batch) == (longest, False, len(lengths))
        for row, real in zip(at.keys.position, mask, strict=True):
            own = row[real].tolist()
            assert own == sorted(set(own))
            assert own[0] >= 0
            assert own[-1] < longest
            assert sum(step > 1 for step in torch.tensor(own).diff().tolist()) <= skips - 1
        assert torch.equal(at.lengths()[1][mask], length_by_hand(at.keys.position, mask)[mask])
        assert torch.equal(at.orders()[1], Positions.build(attention_mask=mask).keys.position)
        # What is hidden of padding is what a mask hides.
        assert torch.equal(at.keys.valid, mask)
    starts = drawn["first"][1].keys.position.masked_fill(~mask, longest).amin(1)
    assert starts.eq(0).all()


def length_by_hand(k: Tensor, mask: Tensor) -> Tensor:
    return (k.masked_fill(~mask, -1).amax(1, keepdim=True) + 1).expand(k.shape)


def test_every_subset_is_as_likely() -> None:
    generator = torch.Generator().manual_seed(0)
    at = Positions.random(2, longest=4, batch=6_000, generator=generator)
    pairs, counts = at.keys.position.unique(dim=0, return_counts=True)
    assert pairs.tolist() == [list(pair) for pair in itertools.combinations(range(4), 2)]
    # Six outcomes of a thousand each; the deviation of a count is 29.
    assert (counts - 1_000).abs().max() < 150
    mask = torch.tensor([[1, 0, 0, 0], [0, 0, 1, 1]]).repeat(3_000, 1)
    at = Positions.random(longest=4, attention_mask=mask, generator=generator)
    first = at.keys.position[::2, 0].bincount()
    assert (first - 750).abs().max() < 130
    pairs, counts = at.keys.position[1::2, 2:].unique(dim=0, return_counts=True)
    assert len(pairs) == 6
    assert (counts - 500).abs().max() < 110


def test_skips_are_drawn_as_the_paper_says() -> None:
    generator = torch.Generator().manual_seed(0)
    rows = 8_000
    at = Positions.skipping(3, longest=6, chunks=3, batch=rows, generator=generator)
    skips = (at.keys.position - torch.arange(3)).tolist()
    assert {row[0] for row in skips} == {0}
    # u[1] is uniform over 0 .. 3, u[2] over u[1] .. 3.
    for one in range(4):
        of_one = [row[2] for row in skips if row[1] == one]
        assert abs(len(of_one) - rows / 4) < 200
        for two in range(one, 4):
            assert abs(of_one.count(two) - len(of_one) / (4 - one)) < 150
    # Two chunks of four tokens begin anew at one of the three later ones.
    at = Positions.skipping(4, longest=1_000, batch=rows, generator=generator)
    jumps = (at.keys.position.diff(dim=-1) > 1).sum(0)
    assert (jumps - rows / 3).abs().max() < 250


def test_one_draw_serves_all_rows() -> None:
    for draw in (Positions.random, Positions.skipping):
        assert draw(5, longest=9).keys.position.shape == (5,)
        assert draw(5, longest=9, batch=1).keys.position.shape == (1, 5)
        assert draw(5, longest=5).keys.position.tolist() == [0, 1, 2, 3, 4]
        # A table of `longest` rows holds them.
        assert pe.Learned(4, 9).embed(torch.zeros(1, 5, 4), draw(5, longest=9)).shape == (1, 5, 4)
