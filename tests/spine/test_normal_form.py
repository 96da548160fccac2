"""The normal form against the equation: back to scores it says what the terms say."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import posenc as pe
from posenc import Positions, PositionsError, ShapeError, UnsupportedError, attend, lower
from posenc import terms as t
from posenc.attention import build_call
from posenc.backends.backend import Call
from posenc.backends.blocked.operands import operands_of
from posenc.backends.blocked.weights import Chunk, scores
from posenc.lowering import Lowered
from posenc.normal_form.features import Feature
from posenc.normal_form.pairs import whole
from posenc.testing.fixtures import context_for, copy_of
from posenc.transform import before
from tests.support.oracles import drawing
from tests.support.term_examples import (
    ADDITIONS,
    ARRANGEMENTS,
    CAUSAL,
    TRANSFORMS,
    TURNS,
    Sizes,
    arranged,
    inputs,
)

SQUARE = Sizes(q_len=7)


def scores_of_form(q: Tensor, k: Tensor, lowered: Lowered) -> Tensor:
    """All scores, from the normal form alone."""
    return before(_scores, build_call(q, k, None, lowered))


def _scores(call: Call) -> Tensor:
    operands, span = operands_of(call), whole(call.form.positions)
    heads = slice(0, operands.heads)
    chunk = Chunk(call.form, span, heads, operands.diagonal, True, True, 0.0, 0)
    return scores(chunk, operands.cut(span, heads))


def check(q: Tensor, k: Tensor, lowered: Lowered, leaves: list[Tensor]) -> None:
    """Scores and their gradients are those of the equation."""
    both = []
    for got in (scores_of_form(q, k, lowered), pe.scores(q, k, lowered)):
        seen = got.masked_fill(got == -torch.inf, 0.0)
        grads = torch.autograd.grad(
            seen.sin().sum(), leaves, materialize_grads=True, retain_graph=True
        )
        both.append([got, *grads])
    for got, wanted in zip(*both, strict=True):
        torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("name", pe.encodings())
def test_every_encoding_is_in_it_what_its_terms_say(name: str) -> None:
    for encoding in pe.encodings()[name].examples():
        encoding = copy_of(encoding).double()
        if pe.lowering.embeds_only(encoding):
            continue
        for causal in (True, False):
            if encoding.tags.causal_only and not causal:
                continue
            dim = encoding.head_dim or 8
            heads = encoding.heads or 4
            # PaTH tells its key heads, as q and k of other encodings have the same.
            key_heads = getattr(encoding, "groups", heads)
            q, k = (drawing(3)(2, n, 9, dim).requires_grad_() for n in (heads, key_heads))
            context = context_for(encoding, 9) if encoding.tags.needs_context else None
            lowered = lower(encoding, 9, causal=causal, context=context, dtype=torch.float64)
            check(q, k, lowered, [q, k, *encoding.parameters()])


@given(st.data())
def test_any_terms_and_any_arrangement(data: st.DataObject) -> None:
    draw = drawing(data.draw(st.integers(0, 2**16)))
    names = data.draw(st.lists(st.sampled_from(sorted(ADDITIONS)), max_size=4))
    turn = data.draw(st.sampled_from([None, *sorted(TURNS)]))
    names_of_matrices = data.draw(st.lists(st.sampled_from(sorted(TRANSFORMS)), max_size=1))
    causal = turn in CAUSAL or data.draw(st.booleans())
    positions, _ = arranged(data.draw(st.sampled_from(ARRANGEMENTS)), SQUARE, causal)
    terms = [ADDITIONS[name](SQUARE, draw) for name in names]
    terms += [] if turn is None else [TURNS[turn](SQUARE, draw)]
    terms += [TRANSFORMS[name](SQUARE, draw) for name in names_of_matrices]
    leaves = [x.requires_grad_() for x in inputs(SQUARE, draw)[:2]]
    for term in terms:
        for value in vars(term).values():
            if isinstance(value, Tensor) and value.is_floating_point():
                leaves.append(value.requires_grad_())
    check(*leaves[:2], lower(terms, positions, dtype=torch.float64), leaves)


def test_masks_collapse_and_terms_of_a_kind_are_one() -> None:
    draw = drawing()
    rules = [t.Window(9), t.Window(5), t.Sink(1), t.Sink(3), t.Prefix(2), t.Chunk(8), t.Chunk(4)]
    tables = [ADDITIONS[name](SQUARE, draw) for name in ("table", "whole table", "whole table")]
    form = lower([*map(t.Mask, rules), *tables, t.Scale(2.0), t.Scale(3.0)], 7).form
    seen = form.visibility
    assert (seen.window, seen.sinks, seen.prefix, seen.chunk, form.scale) == (5, 3, 2, 4, 6.0)
    assert form.table is not None
    assert form.inside_table is None
    assert form.table.values.shape == (6, 13)
    assert form.features == {Feature.TABLE, Feature.MASK}
    made = "DistanceTable", "values"
    assert form.made_for == (("device", made, -1), ("h", made, 6))


def test_a_second_network_is_dense() -> None:
    draw = drawing()
    first, second = (ADDITIONS["network"](SQUARE, draw) for _ in range(2))
    form = lower([first, second], 7).form
    assert form.network is first
    assert form.dense is not None
    assert form.dense.shape == (2, 6, 7, 7)
    assert form.features == {Feature.NETWORK, Feature.DENSE}


def test_a_second_grid_is_dense() -> None:
    draw = drawing()
    first, second = (ADDITIONS["grid"](SQUARE, draw) for _ in range(2))
    form = lower([first, second], 7).form
    assert form.grid is not None
    assert form.dense is not None
    assert form.dense.shape == (2, 6, 7, 7)
    assert form.features == {Feature.GRID, Feature.DENSE}


def test_a_bias_beside_vectors_is_a_table_inside() -> None:
    form = lower([ADDITIONS["gather k buckets, bias"](SQUARE, drawing())], 7).form
    assert form.on_key is not None
    assert form.inside_table is not None
    assert form.on_key.values.shape == (6, 7, 10)


def test_terms_for_different_heads_do_not_come_together() -> None:
    parts = [t.Slope(torch.ones(4)), t.DistanceTable(torch.ones(6, 3), 1, saturates=True)]
    with pytest.raises(
        ShapeError, match=r"DistanceTable\.values was made for 6 heads, but Slope\.past for 4"
    ):
        lower(parts, 7)


@pytest.mark.parametrize("backend", pe.backends.BACKENDS)
def test_tables_of_fractions_are_the_same_error_everywhere(backend: str) -> None:
    q, k, v = (x.float() for x in inputs(SQUARE, drawing()))
    said = r"whole distance.*float64.*int64 positions"
    with torch.no_grad(), pytest.raises(PositionsError, match=said):
        attend(q, k, v, pe.T5Bias(6), positions=torch.arange(7) / 2, backend=backend)


def test_a_huge_window_is_one_that_hides_nothing() -> None:
    q, k, v = inputs(SQUARE, drawing())
    for width, causal in itertools.product((2**62, 2**63 - 1, 2**64), (True, False)):
        expected = attend(q, k, v, causal=causal, backend="reference")
        got = attend(q, k, v, pe.SlidingWindow(width), causal=causal)
        torch.testing.assert_close(got, expected)


def test_the_form_carries_its_positions() -> None:
    positions = Positions.build(7, causal=True)
    lowered = lower(pe.ALiBi(6), positions)
    assert lowered.positions is positions is lowered.form.positions


def test_a_class_derived_from_a_term_is_refused() -> None:
    """Its sizes would be checked nowhere, and the kernels would read beyond its table."""

    class OwnTable(t.DistanceTable):
        pass

    with pytest.raises(
        UnsupportedError, match="OwnTable is derived from a term: give the term itself"
    ):
        lower(OwnTable(torch.zeros(2, 5), zero=2), 3)
