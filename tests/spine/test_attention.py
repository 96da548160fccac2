"""attend and scores: defaults, composition, dropout, dtypes, and who is chosen."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F

import posenc as pe
from posenc import (
    Positions,
    PositionsError,
    Tokens,
    UnsupportedError,
    attend,
    explain_backend,
    scores,
)
from posenc import terms as t
from posenc.backends import BACKENDS
from posenc.native.library import LIBRARY
from tests.support.able import able
from tests.support.oracles import drawing
from tests.support.term_examples import Sizes, inputs

SQUARE = Sizes(q_len=7)


def test_without_an_encoding_it_is_plain_attention() -> None:
    s = Sizes(q_len=7, key_heads=6)
    q, k, v = inputs(s, drawing())
    for causal in (True, False):
        expected = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        for encoding in (None, [], pe.NoPE()):
            for backend in ("auto", *able(q, k, v, encoding, causal=causal)):
                actual = attend(q, k, v, encoding, causal=causal, backend=backend)
                torch.testing.assert_close(actual, expected)


def test_queries_are_the_last_tokens() -> None:
    """torch's is_causal aligns the first query with the first key instead."""
    q, k, v = inputs(SQUARE, drawing())
    for encoding in (pe.Rotary(10), pe.ALiBi(6), pe.SlidingWindow(3)):
        whole = attend(q, k, v, encoding, causal=True)
        for backend in able(q[:, :, 4:], k, v, encoding, causal=True):
            last = attend(q[:, :, 4:], k, v, encoding, causal=True, backend=backend)
            torch.testing.assert_close(last, whole[:, :, 4:])


def test_more_queries_than_keys_need_positions() -> None:
    q, k, v = inputs(Sizes(q_len=7, k_len=4), drawing())
    with pytest.raises(PositionsError, match=r"7 queries but only 4 keys.*cross-attention"):
        attend(q, k, v, pe.NoPE())
    positions = Positions(Tokens(torch.arange(7)), Tokens(torch.arange(4)))
    out = attend(q, k, v, pe.Rotary(10), positions=positions)
    torch.testing.assert_close(
        out, attend(q, k, v, pe.Rotary(10), positions=positions, backend="reference")
    )


def test_the_scale_is_of_the_content_alone() -> None:
    q, k, _ = inputs(SQUARE, drawing())
    bias = scores(0 * q, k, pe.ALiBi(6))
    plain = scores(q, k, scale=1.0)
    default = scores(q, k, pe.ALiBi(6))
    torch.testing.assert_close(default, plain / math.sqrt(10) + bias)
    torch.testing.assert_close(scores(q, k, pe.ALiBi(6), scale=0.3), 0.3 * plain + bias)
    torch.testing.assert_close(scores(q, k, t.Scale(3.0), scale=0.3), 0.9 * plain)
    torch.testing.assert_close(scores(q, k, [t.Scale(3.0), t.Scale(0.5)], scale=1.0), 1.5 * plain)


def test_a_list_composes() -> None:
    q, k, v = inputs(SQUARE, drawing())
    together = scores(q, k, [pe.Rotary(10), pe.ALiBi(6), pe.SlidingWindow(3)], causal=True)
    turned = scores(q, k, pe.Rotary(10), causal=True)
    bias = scores(0 * q, k, pe.ALiBi(6))
    near = scores(q, k, pe.SlidingWindow(3), causal=True) > -torch.inf
    torch.testing.assert_close(together, (turned + bias).masked_fill(~near, -torch.inf))
    assert near.sum(-1).unique().tolist() == [1, 2, 3]
    same = attend(q, k, v, [pe.SlidingWindow(3), pe.ALiBi(6), pe.Rotary(10)], causal=True)
    torch.testing.assert_close(
        same, attend(q, k, v, [pe.Rotary(10), pe.ALiBi(6), [pe.SlidingWindow(3)]], causal=True)
    )


def test_causal_follows_the_positions_where_it_is_left_away() -> None:
    q, k, v = inputs(SQUARE, drawing())
    positions = Positions.build(7, causal=True)
    got = attend(q, k, v, pe.Rotary(10), positions=positions)
    torch.testing.assert_close(got, attend(q, k, v, pe.Rotary(10), causal=True))
    with pytest.raises(PositionsError, match=r"causal=False.*built with causal=True"):
        attend(q, k, v, pe.Rotary(10), positions=positions, causal=False)
    with pytest.raises(PositionsError, match=r"causal=True.*built with causal=False"):
        attend(q, k, v, pe.Rotary(10), positions=Positions.build(7), causal=True)


def test_a_tensor_of_coordinates_is_taken_as_it_is() -> None:
    q, k, v = inputs(Sizes(), drawing())
    at = torch.tensor([3, 1, 4, 1, 5, 9, 2])
    expected = attend(q, k, v, pe.ALiBi(6), positions=Positions.build(3, ids=at, causal=True))
    torch.testing.assert_close(attend(q, k, v, pe.ALiBi(6), positions=at, causal=True), expected)
    halves = attend(q, k, v, pe.ALiBi(6), positions=at / 2, causal=True)
    slopes = torch.tensor(pe.ALiBi(6).slope_values(), dtype=torch.float64)
    expected = attend(q, k, v, t.Slope(slopes / 2), positions=at, causal=True)
    torch.testing.assert_close(halves, expected)


def test_padding_is_not_seen_and_changes_nothing() -> None:
    q, k, v = inputs(SQUARE, drawing())
    mask = torch.tensor([[0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0, 0]])
    for encoding in (pe.Rotary(10), pe.ALiBi(6), pe.Shaw(10, values=False)):
        encoding = encoding.double()
        positions = Positions.build(attention_mask=mask, causal=True)
        for backend in able(q, k, v, encoding, positions=positions):
            out = attend(q, k, v, encoding, positions=positions, backend=backend)
            alone = attend(*(x[:1, :, 2:] for x in (q, k, v)), encoding, causal=True)
            torch.testing.assert_close(out[:1, :, 2:], alone)
            alone = attend(*(x[1:, :, :5] for x in (q, k, v)), encoding, causal=True)
            torch.testing.assert_close(out[1:, :, :5], alone)


@pytest.mark.parametrize("backend", BACKENDS)
def test_dropout_is_on_the_weights(backend: str) -> None:
    """Of equal weights and values of one, what is left is a mean of zeros and 1 / (1 - p)."""
    n, p = 400, 0.3
    q, v = torch.zeros(1, 2, n, 4), torch.ones(1, 2, n, 1)
    if backend not in able(q, q, v, pe.NoPE(), dropout=p):
        with pytest.raises(UnsupportedError, match=rf"backend='{backend}'\) cannot compute"):
            attend(q, q, v, pe.NoPE(), dropout=p, backend=backend)
        return
    torch.manual_seed(0)
    out = attend(q, q, v, pe.NoPE(), dropout=p, backend=backend)
    assert abs(out.mean().item() - 1.0) < 0.01
    deviation = math.sqrt(p / (1 - p) / n)
    assert abs(out.std().item() / deviation - 1.0) < 0.1
    again = attend(q, q, v, pe.NoPE(), dropout=p, backend=backend)
    assert not torch.equal(out, again)
    torch.testing.assert_close(attend(q, q, v, pe.NoPE(), backend=backend), v)


def test_dropout_reaches_the_value_tables() -> None:
    q = torch.zeros(1, 1, 50, 4)
    table = t.ValueTable(torch.ones(1, 1, 1), 0, saturates=True)
    torch.manual_seed(0)
    out = attend(q, q, torch.zeros(1, 1, 50, 1), table, dropout=0.5)
    assert abs(out.mean().item() - 1.0) < 0.05
    assert out.std() > 0.05


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize("dropout", [-0.1, 1.0, 2.0, float("nan"), "0.1", True, None])
def test_dropout_is_a_probability(dropout: float) -> None:
    q = torch.zeros(1, 1, 1, 4)
    with pytest.raises(UnsupportedError, match=rf"dropout={dropout!r}\): a probability in"):
        attend(q, q, q, dropout=dropout)


def test_the_output_has_the_dtype_of_the_values() -> None:
    q, k, v = inputs(Sizes(), drawing())
    expected = attend(q, k, v, pe.Rotary(10), causal=True)
    mixed = (torch.float32, torch.bfloat16, torch.float64, torch.float16)
    for q_dtype, v_dtype in itertools.product(mixed, mixed):
        given = q.to(q_dtype), k.to(torch.float32), v.to(v_dtype)
        for backend in able(*given, pe.Rotary(10), causal=True):
            out = attend(*given, pe.Rotary(10), causal=True, backend=backend)
            assert out.dtype == v_dtype
            torch.testing.assert_close(out.double(), expected, rtol=0.03, atol=0.03)


def test_strides_do_not_matter() -> None:
    q, k, v = inputs(SQUARE, drawing())
    for encoding in (pe.Rotary(10, layout="interleaved"), pe.ALiBi(6), pe.Shaw(10, values=False)):
        encoding = encoding.double()
        expected = attend(q, k, v, encoding, causal=True)
        strided = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
        assert not strided[0].is_contiguous()
        torch.testing.assert_close(attend(*strided, encoding, causal=True), expected)


def test_values_may_have_a_width_of_their_own() -> None:
    q, k, v = inputs(SQUARE, drawing())
    table = t.ValueTable(drawing()(1, 5, 4), 2, saturates=True)
    for encoding in (pe.Rotary(10), pe.ALiBi(6), table):
        out = attend(q, k, v, encoding, causal=True)
        assert out.shape == (2, 6, 7, 4)
        reference = attend(q, k, v, encoding, causal=True, backend="reference")
        torch.testing.assert_close(out, reference)


def test_auto_takes_the_first_that_can_and_will() -> None:
    q, k, v = inputs(SQUARE, drawing())
    said = explain_backend(q, k, v, None, causal=True)
    assert said.endswith("sdpa: taken")
    said = explain_backend(q, k, v, t.CountTable(torch.zeros(1, 3, 10)), causal=True)
    assert "sdpa: CountTable needs the scores" in said
    assert [line.split(":")[0] for line in said.splitlines()] == list(BACKENDS)
    assert said.endswith("reference: taken")
    q, k, v = inputs(Sizes(q_len=32, k_len=32), drawing())
    bias = explain_backend(q, k, v, pe.ALiBi(6), causal=True)
    missing = isinstance(LIBRARY, str)
    assert bias.endswith("sdpa: taken" if missing else "native: taken")
    if missing:
        assert bias.startswith(f"native: {LIBRARY}")


def test_an_explicit_fast_path_equals_the_reference_where_both_can() -> None:
    """The scores of the two paths, seen through values that are the unit vectors."""
    q, k, _ = inputs(SQUARE, drawing())
    eye = torch.eye(7, dtype=torch.float64).expand(2, 3, 7, 7)
    for encoding in (pe.Rotary(10), pe.ALiBi(6), pe.T5Bias(6).double()):
        p = attend(q, k, eye, encoding, causal=True, backend="sdpa")
        torch.testing.assert_close(p, scores(q, k, encoding, causal=True).softmax(-1))
