"""Linear attention against a double loop, in every form."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import posenc as pe
from posenc import Positions, PositionsError, ShapeError
from posenc.linear.attention import linear_attention
from posenc.linear.features import elu_plus_one
from posenc.linear.step import linear_step
from tests.support import oracles
from tests.support.linear import FORMS, ROTARIES, close
from tests.support.oracles import Scene, drawing
from tests.support.term_examples import ARRANGEMENTS, Sizes, arranged, inputs


def slow(q: Tensor, k: Tensor, v: Tensor, terms: Sequence, at: Scene) -> Tensor:
    """Equation 19 of RoFormer as a double loop over Python's numbers, elu(x) + 1 for phi."""
    batch, heads, q_len, _ = q.shape
    share, out = heads // k.shape[1], torch.zeros(*q.shape[:3], v.shape[-1], dtype=torch.float64)

    def phi(x: list[float]) -> list[float]:
        return [value + 1 if value > 0 else math.exp(value) for value in x]

    for b in range(batch):
        for h in range(heads):
            for i in range(q_len):
                below, query = 0.0, phi(q[b, h, i].tolist())
                for j in range(k.shape[2]):
                    if not oracles.visible(at, [], b, i, j):
                        continue
                    key = phi(k[b, h // share, j].tolist())
                    weight = plain = oracles.dot(query, key)
                    if terms:
                        weight = oracles.turned_dot(terms[0], query, key, (b, h, i, j))
                    out[b, h, i] += weight * v[b, h // share, j]
                    below += plain
                out[b, h, i] /= below or 1.0
    return out


def real(at: Scene, out: Tensor) -> Tensor:
    """Rows of real tokens; what a padded query gets is nobody's business."""
    return out.transpose(1, 2)[torch.tensor(at.q_valid)]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("kind", ARRANGEMENTS)
def test_every_form_is_the_double_loop(kind: str, causal: bool) -> None:
    s = Sizes()
    q, k, v = inputs(s, drawing(1))
    positions, at = arranged(kind, s, causal)
    for name, rotary in ROTARIES.items():
        terms = [replace(term, gain=1.0) for term in pe.lower(rotary, positions).terms]
        expected = real(at, slow(q, k, v, terms, at))
        for form in FORMS:
            out = linear_attention(q, k, v, rotary, positions=positions, form=form, chunk=2)
            torch.testing.assert_close(
                real(at, out), expected, rtol=1e-12, atol=1e-12, msg=lambda m, n=name: f"{n}: {m}"
            )


def test_several_axes_turn_as_they_do_in_attention() -> None:
    s = Sizes(q_len=7, dim=12)
    q, k, v = inputs(s, drawing(2))
    ids = torch.arange(2 * 7 * 3).view(2, 7, 3) % 5
    positions = Positions.build(ids=ids, causal=True)
    encoding = pe.MRoPE(12, sections=(2, 2, 2))
    at = arranged("plain", s, causal=True)[1]
    expected = slow(q, k, v, pe.lower(encoding, positions).terms, at)
    for form in FORMS:
        close(linear_attention(q, k, v, encoding, positions=positions, form=form), expected)


@pytest.mark.parametrize("kind", ["plain", "padded", "packed", "packed and padded"])
@pytest.mark.parametrize("causal", [True, False])
def test_forms_agree_backward(kind: str, causal: bool) -> None:
    s = Sizes(k_len=11, q_len=8, reach=11)
    positions, at = arranged(kind, s, causal)
    rows = torch.tensor(at.q_valid)[:, None, :, None]
    encoding = pe.LearnedRotary(10, heads=6).double()

    def gradients(form: str, chunk: int) -> list[Tensor]:
        leaves = [x.requires_grad_() for x in inputs(s, drawing(3))]
        out = linear_attention(
            *leaves, encoding, positions=positions, form=form, chunk=chunk
        ).masked_fill(~rows, 0.0)
        return [out, *torch.autograd.grad(out.sin().sum(), [*leaves, *encoding.parameters()])]

    expected = gradients("parallel", 1)
    assert all(gradient.abs().max() > 1e-3 for gradient in expected)
    for form, chunk in (("chunked", 3), ("chunked", 64), ("recurrent", 5)):
        for got, wanted in zip(gradients(form, chunk), expected, strict=True):
            close(got, wanted)


@pytest.mark.parametrize("form", FORMS)
def test_gradients_are_those_of_finite_differences(form: str) -> None:
    s = Sizes(batch=1, heads=2, key_heads=1, q_len=3, k_len=3, dim=4, value_dim=2)
    leaves = [x.requires_grad_() for x in inputs(s, drawing(4))]

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return linear_attention(q, k, v, pe.Rotary(4), causal=True, form=form, chunk=2)

    assert torch.autograd.gradcheck(run, leaves)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("causal", [True, False])
def test_nothing_leaks(form: str, causal: bool) -> None:
    """What a token must not see may change at will, and not a bit of its output does."""
    s = Sizes(batch=1, q_len=9, k_len=9)
    q, k, v = inputs(s, drawing(12))
    documents = torch.tensor([0, 0, 0, 0, 1, 1, 1, 2, 2])
    mask = torch.tensor([[1] * 8 + [0]])
    at = Positions.build(documents=documents, attention_mask=mask, causal=causal)

    def run(k: Tensor, v: Tensor) -> Tensor:
        return linear_attention(q, k, v, pe.Rotary(10), positions=at, form=form, chunk=3)

    before = run(k, v)
    seen_by = (documents[:, None] == documents) & mask[0].bool()
    if causal:
        seen_by = seen_by.tril()
    for j in range(9):
        moved_k, moved_v = k.clone(), v.clone()
        moved_k[:, :, j] += 50.0
        moved_v[:, :, j] -= 1e6
        changed = (run(moved_k, moved_v) != before).any(dim=-1)[0].any(dim=0)
        assert torch.equal(changed, seen_by[:, j]), j


@pytest.mark.parametrize("causal", [True, False])
def test_memory_is_linear_in_the_length(causal: bool) -> None:
    class Largest(TorchDispatchMode):
        size = 0

        def __torch_dispatch__(self, op, types, args=(), kwargs=None) -> object:
            out = op(*args, **(kwargs or {}))
            self.size = max(self.size, out.numel() if isinstance(out, Tensor) else 0)
            return out

    def largest(length: int, **form: object) -> int:
        s = Sizes(q_len=length, k_len=length)
        q, k, v = inputs(s, drawing(23))
        with Largest() as mode:
            linear_attention(q, k, v, pe.Rotary(10), causal=causal, **form)
        return mode.size

    assert largest(400, chunk=8) == 2 * largest(200, chunk=8)
    assert largest(400, form="parallel") == 4 * largest(200, form="parallel")


def test_moving_all_positions_changes_nothing() -> None:
    q, k, v = inputs(Sizes(q_len=9, k_len=9), drawing(13))
    rope, at = pe.Rotary(10), torch.arange(9)
    expected = linear_attention(q, k, v, rope, causal=True)
    out = linear_attention(q, k, v, rope, causal=True, positions=at + 1_000)
    torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-10)


def test_the_numerator_alone_is_turned() -> None:
    """So that weights may be negative, which no denominator of theirs could stand."""
    one = torch.ones(1, 1, 2, 2, dtype=torch.float64)
    at = Positions.build(ids=torch.tensor([0.0, math.pi], dtype=torch.float64), causal=True)
    v = torch.tensor([[1.0], [0.0]], dtype=torch.float64)[None, None]
    out = linear_attention(one, one, v, pe.Rotary(2), positions=at)
    # Half a turn away, the first token's weight is -1 of 2.
    close(out[0, 0, :, 0], torch.tensor([1.0, -0.5], dtype=torch.float64))


def test_features_may_be_of_another_width() -> None:
    def squares(x: Tensor) -> Tensor:
        return torch.cat((x.square(), (x + 1).square()), dim=-1)

    q, k, v = inputs(Sizes(q_len=7), drawing(14))
    rope = pe.Rotary(20)
    outs = [
        linear_attention(q, k, v, rope, causal=True, feature_map=squares, form=form, chunk=3)
        for form in FORMS
    ]
    close(outs[1], outs[0])
    close(outs[2], outs[0])
    with pytest.raises(ShapeError, match=r"head_dim=10, but q has head_dim=20"):
        linear_attention(q, k, v, pe.Rotary(10), feature_map=squares)
    with pytest.raises(ShapeError, match=r"made \(2, 6, 7\).*only the last dimension"):
        linear_attention(q, k, v, feature_map=lambda x: x.sum(dim=-1))


def test_elu_plus_one_is_positive_far_below_zero() -> None:
    x = torch.linspace(-60, 5, 300)
    near = torch.nn.functional.elu(x.double()) + 1
    torch.testing.assert_close(elu_plus_one(x).double(), near, rtol=1e-5, atol=1e-7)
    assert (elu_plus_one(x) > 0).all()
    assert torch.autograd.gradcheck(
        elu_plus_one, torch.tensor([-2.0, 0.0, 3.0]).double().requires_grad_()
    )


@pytest.mark.parametrize("form", FORMS)
def test_rows_that_see_nothing_are_zero_and_so_is_their_gradient(form: str) -> None:
    leaves = [x.requires_grad_() for x in inputs(Sizes(q_len=7), drawing(15))]
    mask = torch.tensor([[0] * 7, [0, 0, 1, 1, 1, 1, 1]])
    for causal in (True, False):
        at = Positions.build(attention_mask=mask, causal=causal)
        out = linear_attention(*leaves, pe.Rotary(10), positions=at, form=form, chunk=2)
        assert (out[0] == 0).all()
        for gradient in torch.autograd.grad(out.sum(), leaves):
            assert gradient.isfinite().all()
            assert (gradient[0] == 0).all()
    # Features that are all zero leave nothing to divide by.
    out = linear_attention(*leaves, feature_map=torch.zeros_like, form=form)
    assert (out == 0).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_rounds_inputs_and_outputs_alone(dtype: torch.dtype) -> None:
    q, k, v = (x.to(dtype) for x in inputs(Sizes(q_len=7), drawing(16)))
    rope = pe.Rotary(10)
    expected = linear_attention(q.double(), k.double(), v.double(), rope, causal=True)
    for form in FORMS:
        out = linear_attention(q, k, v, rope, causal=True, form=form)
        assert out.dtype == dtype
        eps = torch.finfo(dtype).eps
        torch.testing.assert_close(out.double(), expected, rtol=2 * eps, atol=1e-5)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            under = linear_attention(q, k, v, rope, causal=True, form=form)
        assert torch.equal(under, out)
    _, state = linear_step(q, k, v, rope)
    assert state.numerator.dtype == torch.float32


def test_lowered_terms_and_lists_serve_as_well() -> None:
    q, k, v = inputs(Sizes(q_len=7), drawing(17))
    rope = pe.Rotary(10)
    expected = linear_attention(q, k, v, rope, causal=True)
    lowered = pe.lower(rope, 7, causal=True)
    close(linear_attention(q, k, v, lowered), expected)
    close(linear_step(q, k, v, lowered)[0], expected)
    packed = torch.tensor([0, 0, 0, 1, 1, 1, 1])
    found = linear_attention(q, k, v, [rope, pe.Documents(packed)], causal=True)
    at = Positions.build(documents=packed, causal=True)
    close(found, linear_attention(q, k, v, rope, positions=at))
    with pytest.raises(PositionsError, match=r"6 queries and 6 keys, but positions for 7"):
        linear_attention(*(x[:, :, 1:] for x in (q, k, v)), lowered)


@pytest.mark.parametrize("mask", [[1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1]], ids=str)
@pytest.mark.parametrize("form", ["parallel", "chunked", "recurrent"])
def test_nan_of_padding_reaches_nobody(form: str, mask: list[int]) -> None:
    """Neither an output nor a gradient of real tokens."""
    positions = pe.Positions.build(attention_mask=torch.tensor([mask]), causal=True)
    real = torch.tensor(mask).bool()

    def run(value: float) -> list[Tensor]:
        drawn = inputs(Sizes(batch=1, q_len=6, k_len=6), drawing(25))
        qkv = [x.masked_fill(~real[:, None], value).requires_grad_() for x in drawn]
        out = linear_attention(*qkv, pe.Rotary(10), positions=positions, form=form)[:, :, real]
        return [out, *(x[:, :, real] for x in torch.autograd.grad(out.sin().sum(), qkv))]

    for got, wanted in zip(run(torch.nan), run(0.0), strict=True):
        assert torch.equal(got, wanted)


@pytest.mark.parametrize("rotary_dim", [None, 6])
@pytest.mark.parametrize("form", FORMS)
def test_a_gain_of_a_softmax_is_left_out(form: str, rotary_dim: int | None) -> None:
    """It would multiply the numerator alone, and so the output, by its square."""
    q, k, v = inputs(Sizes(q_len=7), drawing(26))
    yarn = pe.YaRN(4.0, 64, beta_fast=8.0)
    assert pe.lower(pe.Rotary(10, scaling=yarn), 7).terms[0].gain > 1.1
    plain, with_gain = (
        pe.Rotary(10, rotary_dim=rotary_dim, scaling=scaling)
        for scaling in (replace(yarn, attention_factor=1.0), yarn)
    )
    expected = linear_attention(q, k, v, plain, causal=True, form=form)
    close(linear_attention(q, k, v, with_gain, causal=True, form=form), expected)
    close(linear_attention(q, k, v, pe.lower(with_gain, 7, causal=True), form=form), expected)
    close(linear_step(q, k, v, with_gain)[0], expected)
    # Where keys hardly turn, outputs are means of values.
    ones = torch.ones_like(v)
    assert linear_attention(q, k, ones, with_gain, form=form).abs().max() <= 1 + 1e-12
