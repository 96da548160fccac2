"""Every term against loops in float64, alone and together, forward and backward."""

import cmath
import math
from dataclasses import fields, replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from posenc import Positions, Tokens, attend, scores
from posenc import terms as t
from tests.support import oracles
from tests.support.able import able
from tests.support.oracles import drawing
from tests.support.term_examples import (
    ADDITIONS,
    ARRANGEMENTS,
    CAUSAL,
    TERMS,
    TRANSFORMS,
    TURNS,
    VALUE_TURNS,
    Sizes,
    arranged,
    inputs,
)

SHAPES = {
    "odd": Sizes(),
    "three of twelve heads": Sizes(batch=1, heads=12, q_len=2, k_len=5, reach=5),
    "one query": Sizes(q_len=1, k_len=5, reach=5),
    "one token": Sizes(q_len=1, k_len=1, reach=3),
    "square": Sizes(batch=1, heads=2, key_heads=2, q_len=6, k_len=6, reach=6),
}


def real_queries(at: oracles.Scene, out: Tensor) -> Tensor:
    """Rows of real tokens; what a padded query gets is nobody's business."""
    return out.transpose(1, 2)[torch.tensor(at.q_valid)]


def agree(s: Sizes, terms: list[t.Term], kind: str, causal: bool, scale: float | None) -> None:
    q, k, v = inputs(s, drawing(1))
    positions, at = arranged(kind, s, causal)
    expected = real_queries(at, oracles.scores(q, k, terms, at, scale))
    actual = real_queries(at, scores(q, k, terms, positions=positions, scale=scale))
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)

    expected = real_queries(at, oracles.attend(q, k, v, terms, at, scale))
    for backend in able(q, k, v, terms, positions=positions):
        out = attend(q, k, v, terms, positions=positions, scale=scale, backend=backend)
        torch.testing.assert_close(real_queries(at, out), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", TERMS)
def test_each_term_is_what_its_sentence_says(name: str, causal: bool) -> None:
    for shape, s in SHAPES.items():
        if name in CAUSAL and not causal:
            continue
        terms = [TERMS[name](s, drawing(2))]
        kinds = ARRANGEMENTS if shape == "odd" else ["plain"]
        for kind in kinds:
            agree(s, terms, kind, causal, scale=None)


@given(data=st.data())
def test_terms_are_a_set_that_adds_up(data: st.DataObject) -> None:
    additions = data.draw(st.lists(st.sampled_from(list(ADDITIONS)), max_size=6))
    turns = data.draw(st.lists(st.sampled_from(list(TURNS)), max_size=1))
    turns += data.draw(st.lists(st.sampled_from(list(VALUE_TURNS)), max_size=1))
    turns += data.draw(st.lists(st.sampled_from(list(TRANSFORMS)), max_size=1))
    causal = True if {*turns} & {*CAUSAL} else data.draw(st.booleans())
    s = data.draw(st.sampled_from([Sizes(), SHAPES["one query"], SHAPES["square"]]))
    names = data.draw(st.permutations(additions + turns))
    terms = [TERMS[name](s, drawing(seed)) for seed, name in enumerate(names)]
    kind = data.draw(st.sampled_from(ARRANGEMENTS))
    agree(s, terms, kind, causal, scale=data.draw(st.sampled_from([None, 1.0, 0.25])))


def tensors_of(term: t.Term) -> dict[str, Tensor]:
    """Fields of a term through which a gradient may flow."""
    parts = {"near", "far"} if isinstance(term, t.Zones) else set()
    found = {
        field.name: getattr(term, field.name)
        for field in fields(term)
        if isinstance(getattr(term, field.name), Tensor)
        and getattr(term, field.name).is_floating_point()
    }
    for part in parts:
        inner = tensors_of(getattr(term, part))
        found |= {f"{part}.{name}": value for name, value in inner.items()}
    return found


def with_tensors(term: t.Term, values: dict[str, Tensor]) -> t.Term:
    nested = {part for part, _, rest in (name.partition(".") for name in values) if rest}
    for part in nested:
        inner = {n.partition(".")[2]: v for n, v in values.items() if n.startswith(f"{part}.")}
        term = replace(term, **{part: with_tensors(getattr(term, part), inner)})
    return replace(term, **{n: v for n, v in values.items() if "." not in n})


SMALL = Sizes(batch=1, heads=2, key_heads=1, q_len=2, k_len=3, dim=10, value_dim=2, reach=3)


@pytest.mark.parametrize("name", TERMS)
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    term = TERMS[name](SMALL, drawing(3))
    learned = {n: value.clone().requires_grad_() for n, value in tensors_of(term).items()}
    q, k, v = (x.requires_grad_() for x in inputs(SMALL, drawing(4)))

    def run(q: Tensor, k: Tensor, v: Tensor, *values: Tensor) -> Tensor:
        made = with_tensors(term, dict(zip(learned, values, strict=True)))
        return attend(q, k, v, made, causal=True, backend="reference")

    assert torch.autograd.gradcheck(run, (q, k, v, *learned.values()))


@given(data=st.data())
def test_backends_agree_with_the_reference_backward(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(list(ADDITIONS)), max_size=4, unique=True))
    names += data.draw(st.lists(st.sampled_from(list(TURNS)), max_size=1))
    names += data.draw(st.lists(st.sampled_from(list(TRANSFORMS)), max_size=1))
    causal = True if {*names} & {*CAUSAL} else data.draw(st.booleans())
    s = data.draw(st.sampled_from([Sizes(), SHAPES["square"]]))
    positions, _ = arranged(data.draw(st.sampled_from(ARRANGEMENTS)), s, causal)
    drawn = inputs(s, drawing(5))
    made = [TERMS[name](s, drawing(seed)) for seed, name in enumerate(names)]

    def gradients(backend: str) -> list[Tensor]:
        q, k, v = leaves = [x.clone().requires_grad_() for x in drawn]
        terms = []
        for term in made:
            values = {n: x.clone().requires_grad_() for n, x in tensors_of(term).items()}
            terms.append(with_tensors(term, values))
            leaves += values.values()
        out = attend(q, k, v, terms, positions=positions, backend=backend)
        return [out, *torch.autograd.grad(out.sin().sum(), leaves, materialize_grads=True)]

    expected = gradients("reference")
    leaves = [x.clone().requires_grad_() for x in drawn]
    for backend in able(*leaves, made, positions=positions):
        for got, wanted in zip(gradients(backend), expected, strict=True):
            torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-9)


EMPTY_MASK = torch.tensor([[False] * 7, [False, False, True, True, True, True, True]])


@pytest.mark.parametrize("name", [name for name in TERMS if name not in CAUSAL])
def test_a_row_that_sees_nothing_is_zero_and_so_is_its_gradient(name: str) -> None:
    s = Sizes(q_len=7)
    q, k, v = (x.requires_grad_() for x in inputs(s, drawing(6)))
    terms = [TERMS[name](s, drawing(7))]
    positions = Positions.build(attention_mask=EMPTY_MASK, causal="prefix" not in name)
    assert (scores(q, k, terms, positions=positions)[0] == -torch.inf).all()
    for backend in able(q, k, v, terms, positions=positions):
        out = attend(q, k, v, terms, positions=positions, backend=backend)
        assert (out[0] == 0).all()
        assert out.isfinite().all()
        for grad in torch.autograd.grad(out.sum(), [q, k, v], materialize_grads=True):
            assert grad.isfinite().all()
            assert (grad[0] == 0).all()


def test_a_bias_of_minus_infinity_hides_a_key() -> None:
    s = Sizes()
    q, k, v = inputs(s, drawing(8))
    values = torch.zeros(1, 1, s.q_len, s.k_len, dtype=torch.float64)
    values[..., 2:] = -torch.inf
    values[..., 1, :] = -torch.inf
    bias, across = t.DenseBias(values), {"positions": cross(s.q_len, 2)}
    for backend in able(q, k, v, bias):
        out = attend(q, k, v, bias, backend=backend)
        shown = attend(q, k[:, :, :2], v[:, :, :2], **across, backend=backend)
        torch.testing.assert_close(out[:, :, [0, 2]], shown[:, :, [0, 2]])
        assert (out[:, :, 1] == 0).all()


def cross(q_len: int, k_len: int) -> Positions:
    return Positions(Tokens(torch.arange(q_len)), Tokens(torch.arange(k_len)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", TERMS)
def test_low_precision_rounds_inputs_and_outputs_alone(name: str, dtype: torch.dtype) -> None:
    s = Sizes()
    q, k, v = (x.to(dtype) for x in inputs(s, drawing(9)))
    terms = [TERMS[name](s, drawing(10))]
    positions, at = arranged("plain", s, causal=True)
    actual = scores(q, k, terms, positions=positions)
    assert actual.dtype == torch.float32
    expected = oracles.scores(q, k, terms, at)
    torch.testing.assert_close(actual.double(), expected, rtol=2e-5, atol=2e-5)

    expected = oracles.attend(q, k, v, terms, at)
    out = attend(q, k, v, terms, positions=positions, backend="reference")
    assert out.dtype == dtype
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(out.double(), expected, rtol=2 * eps, atol=2e-5)
    # A fused kernel may also round the turned queries and keys, and the weights.
    for backend in able(q, k, v, terms, positions=positions):
        out = attend(q, k, v, terms, positions=positions, backend=backend)
        assert out.dtype == dtype
        torch.testing.assert_close(out.double(), expected, rtol=32 * eps, atol=32 * eps)


@pytest.mark.parametrize("name", TERMS)
def test_autocast_does_not_reach_the_arithmetic(name: str) -> None:
    s = Sizes()
    q, k, v = (x.float() for x in inputs(s, drawing(11)))
    terms = [TERMS[name](s, drawing(12))]
    plain = scores(q, k, terms, causal=True), attend(q, k, v, terms, causal=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        under = scores(q, k, terms, causal=True), attend(q, k, v, terms, causal=True)
    for got, wanted in zip(under, plain, strict=True):
        torch.testing.assert_close(got, wanted, rtol=0, atol=0)


@pytest.mark.parametrize("length", [200_000, 400_000])
def test_factors_that_grow_with_position_stay_right_far_out(length: int) -> None:
    """xPos: queries shrink by what keys grow, from one origin: from 0 a factor reaches 1e408."""
    draw, pairs, places = drawing(13), 4, [100, length // 2, length - 1]
    order = torch.arange(length)
    queries, keys = (Tokens(at, order=at) for at in (order[places], order))
    positions = Positions(queries, keys, causal=True)
    q_at, k_at = (side.position.double()[:, None] for side in (queries, keys))
    frequency = 10_000.0 ** (-torch.arange(pairs, dtype=torch.float64) / pairs)
    rate = torch.tensor([0.3, 0.5, 0.7, 0.9], dtype=torch.float64).log() / 512
    rotate = t.Rotate(
        *((at * frequency)[None, None] for at in (q_at, k_at)),
        layout="half",
        q_log_scale=(q_at * rate)[None, None],
        k_log_scale=(-k_at * rate)[None, None],
    )
    q, k = draw(1, 2, 3, 2 * pairs), draw(1, 1, length, 2 * pairs)
    for dtype, bound in ((torch.float64, 1e-9), (torch.float32, 1e-6), (torch.float16, 1e-6)):
        q_in, k_in = q.to(dtype), k.to(dtype)
        actual = scores(q_in, k_in, rotate, positions=positions)
        for i, place in enumerate(places):
            assert actual[:, :, i, : place + 1].isfinite().all()
            for j in {0, 50, place // 2, place - 1_000, place - 1, place} & {*range(place + 1)}:
                total = 0.0
                for r in range(pairs):
                    q_pair = complex(q_in[0, 1, i, r], q_in[0, 1, i, r + pairs])
                    k_pair = complex(k_in[0, 0, j, r], k_in[0, 0, j, r + pairs])
                    wave = cmath.exp(1j * (place - j) * frequency[r].item())
                    turned = (q_pair * k_pair.conjugate() * wave).real
                    total += turned * math.exp((place - j) * rate[r].item())
                assert abs(actual[0, 1, i, j].item() - total * (2 * pairs) ** -0.5) < bound
