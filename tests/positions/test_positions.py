"""Positions against tokens counted one by one."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils import _pytree as pytree

from posenc import Documents, Positions, PositionsError, Tokens
from posenc.mask_rules import Chunk, Prefix, Sink, Window
from posenc.positions import as_positions
from tests.support.oracles import Rows, Scene, scene, visible

LENGTHS = st.integers(1, 9)


@st.composite
def masks(draw: st.DrawFn, batch: int, length: int) -> Rows:
    """Real tokens in one run, padding on either side, in some rows on all of it."""
    rows = []
    for _ in range(batch):
        start = draw(st.integers(0, length))
        end = draw(st.integers(start, length))
        rows.append([start <= j < end for j in range(length)])
    return rows


@st.composite
def documents(draw: st.DrawFn, batch: int, length: int) -> Rows:
    """Contiguous documents whose numbers are in no order."""
    rows = []
    for _ in range(batch):
        names = draw(st.permutations(range(length)))
        starts = draw(st.lists(st.booleans(), min_size=length, max_size=length))
        row, at = [], 0
        for j, begins in enumerate(starts):
            at += begins and j > 0
            row.append(names[at])
        rows.append(row)
    return rows


@st.composite
def arrangements(draw: st.DrawFn) -> dict[str, Any]:
    """What is said of some tokens; `made` builds from it, for the shape checks draw numbers too."""
    batch, k_len = draw(st.integers(1, 3)), draw(LENGTHS)
    said: dict[str, Any] = {"batch": batch, "k_len": k_len, "q_len": draw(st.integers(1, k_len))}
    said["causal"] = draw(st.booleans())
    if draw(st.booleans()):
        said["mask"] = draw(masks(batch, k_len))
    if draw(st.booleans()):
        said["documents"] = draw(documents(batch, k_len))
    if draw(st.booleans()):
        ids = st.lists(st.integers(0, 50), min_size=k_len, max_size=k_len)
        said["ids"] = [draw(ids) for _ in range(batch)]
    return said


def made(said: dict[str, Any]) -> tuple[Positions, Scene]:
    """Positions from the builder, and the same scene counted by hand."""
    names = {"mask": "attention_mask", "documents": "documents", "ids": "ids"}
    tensors = {names[name]: torch.tensor(said[name]) for name in names if name in said}
    built = Positions.build(said["q_len"], said["k_len"], causal=said["causal"], **tensors)
    return built, scene(**said)


def rows_of(values: torch.Tensor, batch: int) -> Rows:
    return values.expand(batch, -1).tolist() if values.ndim == 1 else values.tolist()


def seen_by(built: Positions, rules: list, batch: int) -> torch.Tensor:
    """Who sees whom, (b, tq, tk)."""
    seen = built.visible(rules)
    seen = torch.ones(1, 1, 1, 1, dtype=torch.bool) if seen is None else seen
    return seen.expand(batch, 1, built.q_len, built.k_len)[:, 0]


Drawn = tuple[list[int], ...]
RULES = st.tuples(
    st.lists(st.integers(1, 5), max_size=2),
    st.lists(st.integers(1, 4), max_size=2),
    st.lists(st.integers(1, 6), max_size=2),
    st.lists(st.integers(1, 6), max_size=2),
)


def rules_of(drawn: Drawn) -> list:
    """Windows, sinks, prefixes and chunks of these widths and counts."""
    return [
        kind(size)
        for kind, sizes in zip((Window, Sink, Prefix, Chunk), drawn, strict=True)
        for size in sizes
    ]


@given(said=arrangements())
def test_the_builder_counts_real_tokens_of_each_document(said: dict[str, Any]) -> None:
    built, counted = made(said)
    batch = len(counted.k_at)
    q_order, k_order = built.orders()
    for got, wanted, valid in (
        (built.queries.position, counted.q_at, counted.q_valid),
        (built.keys.position, counted.k_at, counted.k_valid),
        (q_order, counted.q_order, counted.q_valid),
        (k_order, counted.k_order, counted.k_valid),
    ):
        for row, expected, real in zip(rows_of(got, batch), wanted, valid, strict=True):
            assert [x for x, r in zip(row, real, strict=True) if r] == [
                x for x, r in zip(expected, real, strict=True) if r
            ]


@settings(max_examples=200)
@given(said=arrangements(), drawn=RULES)
def test_visible_is_the_sentence_of_the_design(said: dict[str, Any], drawn: Drawn) -> None:
    built, counted = made(said)
    batch = len(counted.k_at)
    rules = rules_of(drawn)
    seen = seen_by(built, rules, batch)
    for b in range(batch):
        for i in range(built.q_len):
            if not counted.q_valid[b][i]:
                continue
            for j in range(built.k_len):
                assert bool(seen[b, i, j]) == visible(counted, rules, b, i, j), (b, i, j)


@given(said=arrangements(), drawn=RULES)
def test_unit_step_holds_for_every_visible_pair(said: dict[str, Any], drawn: Drawn) -> None:
    built, counted = made(said)
    assert built.unit_step == ("ids" not in said)
    steps, order_steps = built.distance(), built.order_distance()
    seen = seen_by(built, rules_of(drawn), len(counted.k_at))
    if built.unit_step:
        steps, order_steps = (step[:, 0].expand(seen.shape) for step in (steps, order_steps))
        assert torch.equal(steps[seen], order_steps[seen])


@given(said=arrangements())
def test_bound_is_above_every_position(said: dict[str, Any]) -> None:
    built, _ = made(said)
    assert built.bound is not None
    assert built.queries.position.max() < built.bound
    assert built.keys.position.max() < built.bound


@given(said=arrangements())
def test_queries_are_the_last_keys(said: dict[str, Any]) -> None:
    built, _ = made(said)
    last = slice(built.k_len - built.q_len, None)
    assert torch.equal(built.queries.position, built.keys.position[..., last])
    for name in ("order", "document", "length", "valid"):
        q, k = getattr(built.queries, name), getattr(built.keys, name)
        assert (q is None) == (k is None)
        assert q is None or torch.equal(q, k[..., last])


def test_lengths_are_documents_of_one_row() -> None:
    built = Positions.build(4, lengths=[3, 1, 2])
    assert built.keys.position.tolist() == [0, 1, 2, 0, 0, 1]
    assert built.queries.position.tolist() == [2, 0, 0, 1]
    assert built.keys.document.tolist() == [0, 0, 0, 1, 2, 2]
    assert (built.q_len, built.k_len, built.bound) == (4, 6, 6)


def test_plain_positions_are_nothing_but_a_range() -> None:
    built = Positions.build(3, 5, causal=True)
    assert built.keys.position.tolist() == [0, 1, 2, 3, 4]
    assert built.queries.position.tolist() == [2, 3, 4]
    assert (built.in_order, built.unit_step, built.bound, built.batch) == (True, True, 5, 1)
    assert built.visible().int().tolist() == [[[[1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1] * 5]]]
    # A single query, the last token, sees all of them without a mask.
    assert Positions.build(1, 5, causal=True).visible() is None
    assert Positions.build(5).visible() is None


def test_ids_may_have_axes_and_fractions() -> None:
    axes = torch.tensor([[[0, 0], [0, 1], [1, 0], [5, 2]]])
    built = Positions.build(2, ids=axes)
    assert torch.equal(built.queries.position, axes[:, 2:])
    assert (built.bound, built.unit_step, built.k_len, built.q_len) == (6, False, 4, 2)
    with pytest.raises(PositionsError, match=r"one coordinate per token.*\(1, 2, 2\)"):
        built.distance()
    built = Positions.build(ids=torch.tensor([0.0, 2.5, 3.7], dtype=torch.float32))
    assert built.keys.position.dtype == torch.float64
    # A bound on position + 1, which is 4.7.
    assert built.bound == 5


def test_ids_do_not_decide_who_sees_whom() -> None:
    tied = Positions.build(ids=torch.tensor([3, 3, 1]), causal=True)
    assert tied.visible()[0, 0].tolist() == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]


def test_a_single_query_need_not_be_the_last_token() -> None:
    one, order = torch.tensor([1]), torch.arange(4)
    built = Positions(Tokens(one, one), Tokens(order, order), causal=True)
    assert built.visible()[0, 0, 0].tolist() == [True, True, False, False]


def test_cross_attention_has_two_sides() -> None:
    built = Positions(Tokens(torch.arange(5)), Tokens(torch.arange(0, 30, 10)))
    assert built.visible() is None
    assert built.distance()[0, 0, 4].tolist() == [-4, 6, 16]
    assert built.bound is None
    five, three = torch.arange(5), torch.arange(3)
    near = Positions(Tokens(five, five), Tokens(three, three)).visible([Window(1)])
    assert near[0, 0].nonzero().tolist() == [[0, 0], [1, 1], [2, 2]]


def test_extent_is_what_the_caller_knows() -> None:
    assert Positions.build(ids=torch.tensor([0, 4]), extent=100).bound == 100
    assert Positions.build(4).with_extent(9).bound == 9
    assert Positions.build(ids=torch.tensor([0, 20])).with_extent(9).bound == 21


def test_a_tensor_has_coordinates_and_no_bound() -> None:
    positions = as_positions(torch.tensor([5, 6, 9]), 2, 3, causal=True)
    assert positions.queries.position.tolist() == [6, 9]
    assert positions.bound is None
    assert not positions.unit_step
    assert as_positions(torch.tensor([[0.5, 1.5]]), 2).keys.position.dtype == torch.float64


@given(rows=st.data())
def test_documents_stand_for_packed_positions(rows: st.DataObject) -> None:
    length = rows.draw(LENGTHS)
    ids = torch.tensor(rows.draw(documents(2, length)))
    q_len = rows.draw(st.integers(1, length))
    placed = Documents(ids).place(Positions.build(q_len, length, causal=True, extent=99))
    built = Positions.build(q_len, length, causal=True, documents=ids, extent=99)
    got, wanted = pytree.tree_flatten(placed), pytree.tree_flatten(built)
    assert got[1] == wanted[1]
    for one, other in zip(got[0], wanted[0], strict=True):
        assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


@given(said=arrangements())
def test_positions_are_a_pytree(said: dict[str, Any]) -> None:
    built, _ = made(said)
    leaves, spec = pytree.tree_flatten(built)
    again = pytree.tree_unflatten(leaves, spec)
    assert isinstance(again, Positions)
    moved = pytree.tree_map_only(torch.Tensor, lambda x: x.clone(), built)
    assert isinstance(moved.keys, Tokens)
    for before, after in zip(leaves, pytree.tree_leaves(moved), strict=True):
        if isinstance(before, torch.Tensor):
            assert before is not after
            assert torch.equal(before, after)
        else:
            assert before == after
    assert again.keys.position is built.keys.position


def test_other_places_are_bounded_above_their_fractions() -> None:
    at = Positions.build(3, causal=True).at(torch.tensor([0.5, 2.5, 3.5]))
    assert at.bound == 5
    assert int(at.lengths()[0].max()) == 5


def test_lengths_are_those_of_the_own_sequence() -> None:
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    q, k = Positions.build(2, attention_mask=mask).lengths()
    assert k[:, -1].tolist() == [3, 5]
    assert q.tolist() == [[3, 3], [5, 5]]
    packed = Positions.build(lengths=[3, 1, 2])
    assert packed.lengths()[1].tolist() == [[3, 3, 3, 1, 2, 2]]
    ids = Positions.build(ids=torch.tensor([[0, 7, 3], [0, 1, 2]]))
    assert ids.lengths()[0].tolist() == [[8, 8, 8], [3, 3, 3]]
    axes = Positions.build(ids=torch.tensor([[[0, 1], [4, 2]]]))
    assert axes.lengths()[1].tolist() == [[5, 5]]


def test_an_extent_stands_in_for_every_length() -> None:
    mask = torch.tensor([[0, 1, 1], [1, 1, 1]])
    assert [n.tolist() for n in Positions.build(3).lengths()] == [[[3]], [[3]]]
    assert Positions.build(attention_mask=mask, extent=9).lengths()[1].tolist() == [[9]]
    assert Positions.build(attention_mask=mask).with_extent(9).lengths()[0].tolist() == [[9]]
    with pytest.raises(PositionsError, match="bare tensor"):
        as_positions(torch.arange(3), 3).lengths()
    with pytest.raises(PositionsError, match=r"Positions\(queries, keys, extent=N\)"):
        Positions(Tokens(torch.arange(2)), Tokens(torch.arange(3))).lengths()
