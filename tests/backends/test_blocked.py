"""Backend `blocked`: equal to the equation at odd shapes, deterministic, in linear memory."""

from collections.abc import Callable
from dataclasses import fields, replace

import pytest
import torch
from torch import Tensor, nn

import posenc as pe
from posenc import Positions, attend, lower
from posenc import terms as t
from posenc.backends.blocked import chunks
from tests.support.oracles import drawing

HEADS, DIM = 4, 16

ENCODINGS: dict[str, Callable[[], list[object]]] = {
    "nothing": lambda: [],
    "rotary": lambda: [pe.Rotary(DIM)],
    "alibi": lambda: [pe.ALiBi(HEADS, learned=True)],
    "alibi of two sides inside": lambda: [pe.ALiBi(HEADS, future=2.0, inside=True)],
    "t5": lambda: [pe.T5Bias(HEADS, bidirectional=True)],
    "kerple": lambda: [pe.KERPLE(HEADS)],
    "shaw": lambda: [pe.Shaw(DIM, clip=7)],
    "shaw of two sides, turned": lambda: [pe.Rotary(DIM), pe.Shaw(DIM, clip=5, future=2)],
    "transformer_xl": lambda: [pe.TransformerXL(HEADS * DIM, HEADS)],
    "deberta": lambda: [pe.DeBERTa(64, HEADS, span=20, projections="own")],
    "deberta logs": lambda: [pe.DeBERTa(64, HEADS, span=90, buckets=16, projections="own")],
    "window": lambda: [pe.T5Bias(HEADS), pe.SlidingWindow(40)],
    "window, sinks": lambda: [pe.Shaw(DIM, clip=7), pe.SlidingWindow(40), pe.Sinks(3)],
    "prefix": lambda: [pe.T5Bias(HEADS, bidirectional=True), t.Mask(t.Prefix(9))],
    "temperature": lambda: [pe.Temperature("log_n", original_length=16), pe.T5Bias(HEADS)],
}


def placed(kind: str, q_len: int, k_len: int, causal: bool) -> Positions:
    if kind == "plain":
        return Positions.build(q_len, k_len, causal=causal)
    if kind == "packed":
        parts = [k_len // 3, k_len - k_len // 3 - k_len // 4, k_len // 4]
        lengths = [part for part in parts if part]
        return Positions.build(q_len, lengths=lengths, causal=causal)
    mask = torch.ones(2, k_len)
    mask[0, : k_len // 3], mask[1, k_len - k_len // 4 :] = 0, 0
    return Positions.build(q_len, attention_mask=mask, causal=causal)


def leaves_of(parts: list[object]) -> list[Tensor]:
    return [p for part in parts if isinstance(part, nn.Module) for p in part.parameters()]


def results(
    tensors: tuple[Tensor, ...], parts: list[object], backend: str, **call: object
) -> list[Tensor]:
    leaves = [x.clone().requires_grad_() for x in tensors]
    out = attend(*leaves, parts, backend=backend, **call)
    leaves += leaves_of(parts)
    grads = torch.autograd.grad(out.float().sin().sum(), leaves, materialize_grads=True)
    return [out, *grads]


def random(q_len: int, k_len: int, *, key_heads: int = 2, dim: int = DIM) -> tuple[Tensor, ...]:
    draw = drawing(q_len)
    return (
        draw(2, HEADS, q_len, dim),
        draw(2, key_heads, k_len, dim),
        draw(2, key_heads, k_len, dim),
    )


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that lengths of a test have many of them."""
    monkeypatch.setattr(chunks, "ROWS", 16)
    monkeypatch.setattr(chunks, "SCORES", 2**13)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", ENCODINGS)
def test_it_is_the_equation_forward_and_backward(name: str, causal: bool) -> None:
    torch.manual_seed(1)
    parts = [p.double() if isinstance(p, nn.Module) else p for p in ENCODINGS[name]()]
    for q_len, k_len in ((1, 1), (1, 63), (63, 63), (129, 129), (50, 129)):
        for kind in ("plain", "packed", "padded"):
            call = {"positions": placed(kind, q_len, k_len, causal)}
            tensors = random(q_len, k_len)
            expected = results(tensors, parts, "reference", **call)
            actual = results(tensors, parts, "blocked", **call)
            for got, wanted in zip(actual, expected, strict=True):
                torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dim", [40, 80, 96, 128])
@pytest.mark.parametrize("key_heads", [1, 2, 4])
def test_any_head_dimension_and_shared_key_heads(dim: int, key_heads: int) -> None:
    torch.manual_seed(2)
    parts = [pe.Shaw(dim, clip=9).double(), pe.KERPLE(HEADS).double()]
    tensors = random(130, 150, key_heads=key_heads, dim=dim)
    expected = results(tensors, parts, "reference", causal=True)
    actual = results(tensors, parts, "blocked", causal=True)
    for got, wanted in zip(actual, expected, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("dtype", "bound"), [(torch.float32, 2e-5), (torch.bfloat16, 2e-2), (torch.float16, 3e-3)]
)
@pytest.mark.parametrize("name", ["alibi", "t5", "shaw", "transformer_xl", "deberta logs"])
def test_low_precision_rounds_inputs_and_outputs_alone(
    name: str, dtype: torch.dtype, bound: float
) -> None:
    torch.manual_seed(3)
    parts = [p.double() for p in ENCODINGS[name]()]
    tensors = tuple(x.to(dtype) for x in random(129, 129))
    expected = results(tuple(x.double() for x in tensors), parts, "reference", causal=True)
    actual = results(tensors, parts, "blocked", causal=True)
    for got, wanted in zip(actual, expected, strict=True):
        error = (got.double() - wanted).abs().max() / wanted.abs().max()
        assert error < bound


def test_one_chunk_or_many_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [pe.T5Bias(HEADS).double(), pe.Shaw(DIM, clip=7).double()]
    whole = results(random(100, 129), parts, "blocked", causal=True)
    for rows, scores in ((7, 2**20), (32, 2**10), (129, 2**30)):
        monkeypatch.setattr(chunks, "ROWS", rows)
        monkeypatch.setattr(chunks, "SCORES", scores)
        tiles = results(random(100, 129), parts, "blocked", causal=True)
        for got, wanted in zip(tiles, whole, strict=True):
            torch.testing.assert_close(got, wanted, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("size", [-1e30, 1e30, 1e4, -1e4])
def test_biases_of_any_size(size: float) -> None:
    values = torch.zeros(HEADS, 5, dtype=torch.float64)
    values[:, 1], values[:, 2] = size, -size / 2
    table = t.DistanceTable(values, 4, saturates=True)
    expected = results(random(63, 63), [table], "reference", causal=True)
    actual = results(random(63, 63), [table], "blocked", causal=True)
    for got, wanted in zip(actual, expected, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-9)


def test_a_bias_of_minus_infinity_hides_keys() -> None:
    values = torch.zeros(1, 4, dtype=torch.float64)
    values[:, 2:] = -torch.inf
    table = t.DistanceTable(values, 3, saturates=True)
    call = {"positions": Positions.build(63, causal=True)}
    expected = results(random(63, 63), [table], "reference", **call)
    actual = results(random(63, 63), [table], "blocked", **call)
    # The first queries have no key as far back as the table shows.
    assert (actual[0][:, :, :2] == 0).all()
    for got, wanted in zip(actual, expected, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "parts",
    [
        [pe.ALiBi(HEADS, learned=True)],
        [pe.Rotary(6), pe.Shaw(6, clip=2, future=1)],
        [pe.TransformerXL(24, HEADS)],
        [pe.DeBERTa(24, HEADS, span=3, projections="own")],
    ],
    ids=["bias", "q and values", "q and key bias", "q and k"],
)
def test_gradients_are_those_of_finite_differences(parts: list[pe.Encoding]) -> None:
    parts = [part.double() for part in parts]
    lowered = lower(parts, 4, causal=True, dtype=torch.float64)
    learned = {
        (at, field.name): getattr(term, field.name).detach().requires_grad_()
        for at, term in enumerate(lowered.terms)
        for field in fields(term)
        if isinstance(value := getattr(term, field.name), Tensor)
        and value.is_floating_point()
        and not isinstance(term, t.Rotate)
    }

    def run(q: Tensor, k: Tensor, v: Tensor, *values: Tensor) -> Tensor:
        terms = list(lowered.terms)
        for (at, field), value in zip(learned, values, strict=True):
            terms[at] = replace(terms[at], **{field: value})
        return attend(q, k, v, lowered.with_terms(terms, torch.float64), backend="blocked")

    small = [x[:1].clone().requires_grad_() for x in random(4, 4, dim=6)]
    assert torch.autograd.gradcheck(run, (*small, *learned.values()), fast_mode=True)


def test_it_repeats_itself_to_the_last_bit() -> None:
    torch.manual_seed(5)
    parts = [pe.T5Bias(HEADS), pe.Shaw(DIM, clip=7), pe.TransformerXL(HEADS * DIM, HEADS)]
    tensors = tuple(x.float() for x in random(200, 200))
    first = results(tensors, parts, "blocked", causal=True)
    for got, wanted in zip(results(tensors, parts, "blocked", causal=True), first, strict=True):
        assert torch.equal(got, wanted)


def test_dropout_is_drawn_alike_forward_and_backward() -> None:
    """The output is linear in v, so that its derivative there is exact, with what was dropped."""
    q, k, v = random(100, 129)
    parts = [pe.T5Bias(HEADS).double(), pe.Shaw(DIM, clip=7).double()]

    def run(v: Tensor) -> Tensor:
        torch.manual_seed(6)
        return attend(q, k, v, parts, causal=True, dropout=0.3, backend="blocked")

    step, weight = drawing(7)(*v.shape), drawing(8)(*q.shape)
    (grad,) = torch.autograd.grad((run(v.requires_grad_()) * weight).sum(), v)
    moved = (run(v + step) - run(v)) * weight
    torch.testing.assert_close(moved.sum(), (grad * step).sum())


def test_gradients_under_dropout() -> None:
    q, k, v = (x[:1].clone().requires_grad_() for x in random(4, 4, dim=3))
    tables = [drawing(9)(1, 5, 3).requires_grad_() for _ in range(2)]

    def run(q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        torch.manual_seed(10)
        terms = [t.GatherTable(keys, 2, "q", saturates=True), t.ValueTable(values, 2, None, True)]
        return attend(q, k, v, terms, dropout=0.4, backend="blocked")

    assert torch.autograd.gradcheck(run, (q, k, v, *tables))
