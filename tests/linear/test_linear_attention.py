"""Linear attention against a double loop, in every form, whole and step by step."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import posenc as pe
from posenc import (
    CacheError,
    Positions,
    PositionsError,
    SettingError,
    ShapeError,
    Tokens,
    UnsupportedError,
)
from posenc.linear.attention import linear_attention
from posenc.linear.features import elu_plus_one
from posenc.linear.scan import LinearState
from posenc.linear.step import linear_step
from posenc.lowering import Lowerable
from tests.support import oracles
from tests.support.oracles import Scene, drawing
from tests.support.term_examples import ARRANGEMENTS, Sizes, arranged, inputs

FORMS = ("parallel", "chunked", "recurrent")
ROTARIES: dict[str, Lowerable] = {
    "none": None,
    "no position": pe.NoPE(),
    "half": pe.Rotary(10),
    "interleaved": pe.Rotary(10, base=500.0, layout="interleaved"),
    "partial": pe.Rotary(10, rotary_dim=6),
    "yarn, with a gain": pe.Rotary(10, scaling=pe.YaRN(4.0, 64, beta_fast=8.0)),
    "dynamic": pe.Rotary(10, scaling=pe.DynamicNTK(2.0, original_length=2)),
    "proportional": pe.Rotary(10, scaling=pe.Proportional(0.4)),
    "per head": pe.LearnedRotary(10, heads=6),
}


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


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("kind", ARRANGEMENTS)
def test_every_form_is_the_double_loop(kind: str, causal: bool) -> None:
    s = Sizes()
    q, k, v = inputs(s, drawing(1))
    positions, at = arranged(kind, s, causal)
    for name, rotary in ROTARIES.items():
        terms = pe.lower(rotary, positions).terms
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


# After padding on the right nothing follows.
MASK = torch.tensor([[0] * 4 + [1] * 5, [1] * 9])
IDS = torch.tensor([[5] * 3 + [7] * 6, [0] * 6 + [2, 2, 1]])
TOKENS: dict[str, dict[str, Tensor]] = {
    "plain": {},
    "padded": {"attention_mask": MASK},
    "packed": {"documents": IDS},
    "packed and padded": {"attention_mask": MASK, "documents": IDS},
    "explicit": {"ids": torch.arange(18).view(2, 9).square() % 17},
}


@given(data=st.data())
def test_steps_of_any_size_equal_the_whole(data: st.DataObject) -> None:
    """Prefill, decoding and everything between: the state is all that is kept."""
    tensors = TOKENS[data.draw(st.sampled_from(list(TOKENS)))]
    rotary = ROTARIES[data.draw(st.sampled_from([n for n in ROTARIES if n != "dynamic"]))]
    chunk = data.draw(st.sampled_from([1, 2, 64]))
    cuts = data.draw(st.sets(st.integers(1, 8)))
    q, k, v = inputs(Sizes(q_len=9, k_len=9), drawing(5))
    whole = Positions.build(9, **tensors, causal=True)
    expected = linear_attention(q, k, v, rotary, positions=whole, form="parallel")
    state, found = None, []
    for start, stop in itertools.pairwise(sorted({0, *cuts, 9})):
        so_far = {name: tensor[:, :stop] for name, tensor in tensors.items()}
        at = Positions.build(stop - start, stop, **so_far, causal=True)
        new = (x[:, :, start:stop] for x in (q, k, v))
        out, state = linear_step(*new, rotary, state, positions=at, chunk=chunk)
        found.append(out)
    real = tensors.get("attention_mask", torch.ones(2, 9)).bool()
    close(torch.cat(found, dim=2).transpose(1, 2)[real], expected.transpose(1, 2)[real])


@pytest.mark.parametrize("name", ["none", "half", "per head"])
def test_positions_count_on_from_the_state(name: str) -> None:
    q, k, v = inputs(Sizes(q_len=9, k_len=9), drawing(6))
    rotary = ROTARIES[name]
    expected = linear_attention(q, k, v, rotary, causal=True)
    state: LinearState | None = None
    sizes = set()
    for i in range(9):
        before = state
        out, state = linear_step(*(x[:, :, i : i + 1] for x in (q, k, v)), rotary, state)
        close(out, expected[:, :, i : i + 1])
        assert state is not before
        assert state.position is not None
        assert state.position.tolist() == [i + 1]
        sizes.add((state.numerator.shape, state.denominator.shape))
    heads = 6 if name == "per head" else 3
    assert sizes == {((2, heads, 10, 4), (2, heads, 10))}


def test_rows_of_different_lengths_decode_together() -> None:
    """Left padding: each row counts on from its own number of tokens."""
    s = Sizes(q_len=9, k_len=9)
    q, k, v = inputs(s, drawing(7))
    rope, mask = pe.Rotary(10), torch.tensor([[0, 0, 0, 1, 1, 1], [1] * 6])
    prompt = Positions.build(attention_mask=mask, causal=True)
    _, state = linear_step(*(x[:, :, :6] for x in (q, k, v)), rope, positions=prompt)
    assert state.position.tolist() == [3, 6]
    found = []
    for i in range(6, 9):
        out, state = linear_step(*(x[:, :, i : i + 1] for x in (q, k, v)), rope, state)
        found.append(out)
    whole = torch.cat((mask, torch.ones(2, 3, dtype=torch.long)), dim=1)
    at = Positions.build(attention_mask=whole, causal=True)
    expected = linear_attention(q, k, v, rope, positions=at, form="parallel")
    close(torch.cat(found, dim=2), expected[:, :, 6:])


def test_padding_on_the_right_leaves_the_state_where_it_was() -> None:
    q, k, v = inputs(Sizes(q_len=9, k_len=9), drawing(8))
    rope, mask = pe.Rotary(10), torch.tensor([[1, 1, 1, 0, 0, 0], [1] * 6])
    state = None
    for part in (slice(0, 4), slice(4, 6)):
        at = Positions.build(
            part.stop - part.start, attention_mask=mask[:, : part.stop], causal=True
        )
        tokens = (x[:, :, part] for x in (q, k, v))
        _, state = linear_step(*tokens, rope, state, positions=at)
    assert state.position.tolist() == [3, 6]
    out, _ = linear_step(*(x[:, :, 6:7] for x in (q, k, v)), rope, state)
    for row, length in ((0, 3), (1, 6)):
        keep = [*range(length), 6]
        alone = (x[row : row + 1, :, keep] for x in (q, k, v))
        expected = linear_attention(*alone, rope, causal=True)
        close(out[row : row + 1], expected[:, :, -1:])


def test_a_packed_prompt_goes_on_with_its_last_document() -> None:
    q, k, v = inputs(Sizes(q_len=9, k_len=9), drawing(9))
    rope, ids = pe.Rotary(10), torch.tensor([0, 0, 0, 1, 1, 1, 1])
    at = Positions.build(documents=ids, causal=True)
    _, state = linear_step(*(x[:, :, :7] for x in (q, k, v)), rope, positions=at)
    assert state.position.tolist() == [4]
    out, state = linear_step(*(x[:, :, 7:] for x in (q, k, v)), rope, state)
    assert (state.document.tolist(), state.position.tolist()) == ([1], [6])
    ids = torch.cat((ids, torch.tensor([1, 1, 4, 4])))
    at = Positions.build(2, documents=ids, causal=True)
    _, begun = linear_step(*(x[:, :, 7:] for x in (q, k, v)), rope, state, positions=at)
    assert (begun.document.tolist(), begun.position.tolist()) == ([4], [2])
    alone = linear_attention(*(x[:, :, 3:] for x in (q, k, v)), rope, causal=True)
    close(out, alone[:, :, 4:])


def test_explicit_coordinates_are_asked_for_again() -> None:
    q, k, v = inputs(Sizes(q_len=5, k_len=5), drawing(10))
    rope, ids = pe.Rotary(10), torch.tensor([0.0, 0.5, 3.0, 7.0, 7.25], dtype=torch.float64)
    expected = linear_attention(q, k, v, rope, positions=ids, causal=True)
    first, state = linear_step(*(x[:, :, :3] for x in (q, k, v)), rope, positions=ids[:3])
    tokens = [x[:, :, 3:] for x in (q, k, v)]
    with pytest.raises(PositionsError, match="were explicit"):
        linear_step(*tokens, rope, state)
    for coordinates in (ids[3:], ids):
        second, _ = linear_step(*tokens, rope, state, positions=coordinates)
        close(torch.cat((first, second), dim=2), expected)


def test_angles_that_depend_on_the_length_need_the_final_one() -> None:
    q, k, v = inputs(Sizes(q_len=6, k_len=6), drawing(11))
    dynamic, tokens = ROTARIES["dynamic"], [x[:, :, :4] for x in (q, k, v)]
    with pytest.raises(CacheError, match=r"depend on the length.*got an extent of None"):
        linear_step(*tokens, dynamic)
    first, state = linear_step(
        *tokens, dynamic, positions=Positions.build(4, causal=True, extent=6)
    )
    rest = [x[:, :, 4:] for x in (q, k, v)]
    second, _ = linear_step(*rest, dynamic, state)
    close(torch.cat((first, second), dim=2), linear_attention(q, k, v, dynamic, causal=True))
    longer = Positions.build(2, 6, causal=True, extent=9)
    with pytest.raises(CacheError, match="an extent of 9, and the state was made for 6"):
        linear_step(*rest, dynamic, state, positions=longer)


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


def test_other_orders_need_the_parallel_form() -> None:
    """A state meets each key once; a mask of all pairs takes them as they come."""
    q, k, v = inputs(Sizes(batch=1, q_len=4, k_len=4), drawing(18))
    at, order = torch.arange(4), torch.tensor([2, 0, 3, 1])
    mixed = Positions(Tokens(at, order), Tokens(at, order), causal=True)
    out = linear_attention(q, k, v, pe.Rotary(10), positions=mixed, form="parallel")
    unsorted = [x[:, :, order.argsort()] for x in (q, k, v)]
    ids = Positions.build(ids=order.argsort(), causal=True)
    expected = linear_attention(*unsorted, pe.Rotary(10), positions=ids)
    close(out[:, :, order.argsort()], expected)
    again = torch.tensor([0, 1, 1, 0])
    torn = Tokens(at, document=again)
    sides = Positions(torn, torn), Positions(torn, Tokens(at, document=again.sort()[0]))
    for positions in (mixed, *sides):
        for form in FORMS[1:]:
            with pytest.raises(PositionsError, match="a state meets each key once"):
                linear_attention(q, k, v, pe.Rotary(10), positions=positions, form=form)


def test_queries_of_another_sequence_see_all_keys() -> None:
    s = Sizes(q_len=5, k_len=3)
    q, k, v = inputs(s, drawing(19))
    queries, keys = Tokens(torch.arange(5)), Tokens(torch.arange(3) * 2)
    across = Positions(queries, keys)
    outs = [linear_attention(q, k, v, pe.Rotary(10), positions=across, form=form) for form in FORMS]
    close(outs[1], outs[0])
    close(outs[2], outs[0])
    zeros = torch.zeros(5).long()
    packed = Positions(replace(queries, document=zeros), replace(keys, document=zeros[:3]))
    close(linear_attention(q, k, v, pe.Rotary(10), positions=packed, form="parallel"), outs[0])
    with pytest.raises(PositionsError, match=r'5 queries and 3 keys.*form="parallel"'):
        linear_attention(q, k, v, pe.Rotary(10), positions=packed)


REFUSED: dict[str, tuple[Lowerable, str]] = {
    "bias": (pe.ALiBi(6), r"\['Slope'\]"),
    "mask": ([pe.Rotary(10), pe.SlidingWindow(3)], r"\['Rotate', 'Mask'\]"),
    "zones": (pe.ReRoPE(10, window=2), r"\['Zones'\]"),
    "factors": (pe.XPos(10), "grow with position"),
    "context": (pe.ForgetGate(60, 6), "changes scores"),
    "counts": (pe.CoPE(10), r"\['CountTable'\]"),
    "embedding": (pe.Sinusoidal(10), "embed"),
    "two": ([pe.Rotary(10), pe.Rotary(10)], "2 rotations"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("form", FORMS)
def test_what_is_not_one_rotation_is_refused(name: str, form: str) -> None:
    q, k, v = inputs(Sizes(q_len=7), drawing(20))
    encoding, said = REFUSED[name]
    with pytest.raises(UnsupportedError, match=said):
        linear_attention(q, k, v, encoding, causal=True, form=form)
    with pytest.raises(UnsupportedError, match=said):
        linear_step(q, k, v, encoding)


@pytest.mark.usefixtures("unhooked")
def test_bad_calls_say_what_to_do() -> None:
    q, k, v = inputs(Sizes(q_len=7), drawing(21))
    rope = pe.Rotary(10)
    with pytest.raises(SettingError, match=r"form='scan'.*'recurrent'"):
        linear_attention(q, k, v, rope, form="scan")
    with pytest.raises(SettingError, match=r"chunk=0"):
        linear_attention(q, k, v, rope, chunk=0)
    with pytest.raises(ShapeError, match="grouped-query attention needs a multiple"):
        linear_attention(q[:, :5], k, v, rope)
    with pytest.raises(PositionsError, match="7 queries but only 6 keys"):
        linear_attention(q, k[:, :, :6], v[:, :, :6], rope, causal=True)
    rows = Positions.build(documents=torch.zeros(3, 7).long(), causal=True)
    with pytest.raises(PositionsError, match="a batch of 3, but q has 2 rows"):
        linear_attention(q, k, v, rope, positions=rows)
    with pytest.raises(ShapeError, match="got 3 queries, 7 keys"):
        linear_step(q[:, :, :3], k, v, rope)
    open_both_ways = Positions.build(7)
    with pytest.raises(PositionsError, match="causal=True, but the positions were built with"):
        linear_step(q, k, v, rope, positions=open_both_ways)
    _, state = linear_step(q, k, v, rope)
    with pytest.raises(CacheError, match=r"\(2, 3, 10, 4\).*\(2, 3, 10, 3\).*one state per layer"):
        linear_step(q, k, v[..., :3], rope, state)
    packed = Positions.build(documents=torch.zeros(7).long(), causal=True)
    with pytest.raises(CacheError, match="the state is of tokens without"):
        linear_step(q, k, v, rope, state, positions=packed)


@pytest.mark.graph
def test_one_graph_serves_all_steps() -> None:
    graphs = []

    def backend(graph: torch.fx.GraphModule, _: list[Tensor]) -> torch.fx.GraphModule:
        graphs.append(graph)
        return graph

    q, k, v = inputs(Sizes(q_len=9, k_len=9), drawing(22))
    rope = pe.Rotary(10)
    expected = linear_attention(q, k, v, rope, causal=True)
    torch._dynamo.reset()
    step = torch.compile(linear_step, fullgraph=True, backend=backend)
    _, state = linear_step(*(x[:, :, :3] for x in (q, k, v)), rope)
    for i in range(3, 9):
        out, state = step(*(x[:, :, i : i + 1] for x in (q, k, v)), rope, state)
        close(out, expected[:, :, i : i + 1])
    assert len(graphs) == 1
    whole = torch.compile(linear_attention, fullgraph=True, backend="aot_eager")
    close(whole(q, k, v, rope, causal=True, chunk=4), expected)
