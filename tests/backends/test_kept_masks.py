"""SDPA's mask, made once for all layers, is that of each call by itself."""

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc.backends import sdpa
from posenc.terms import DistanceTable

HEADS, DIM, KEYS = 4, 8, 12


@pytest.fixture
def qkv() -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    q = torch.randn(2, HEADS, 3, DIM)
    k, v = torch.randn(2, 2, HEADS, KEYS, DIM)
    return q, k, v


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """One entry for each mask that is made."""
    calls: list[object] = []
    make = sdpa._mask_tensor

    def counted(call: object) -> Tensor | None:
        calls.append(call)
        return make(call)

    monkeypatch.setattr(sdpa, "_mask_tensor", counted)
    return calls


def positions() -> pe.Positions:
    return pe.Positions.build(3, KEYS, causal=True)


def both(qkv: tuple[Tensor, ...], lowered: pe.Lowered, **asked: float) -> tuple[Tensor, Tensor]:
    return tuple(
        pe.attend(*qkv, lowered, backend=backend, **asked) for backend in ("sdpa", "reference")
    )


@pytest.mark.parametrize(
    "encoding",
    [None, pe.ALiBi(HEADS), pe.SlidingWindow(4), [pe.FIRE(HEADS), pe.SlidingWindow(4)]],
    ids=str,
)
def test_layers_share_one_mask(encoding, qkv, made) -> None:
    with torch.no_grad():
        lowered = pe.lower(encoding, positions())
        for _ in range(3):
            torch.testing.assert_close(*both(qkv, lowered))
    assert len(made) == 1


def test_another_scale_and_dtype_have_their_own(qkv) -> None:
    lowered = pe.lower(pe.ALiBi(HEADS, inside=True), positions())
    for scale in (1.0, 0.5, 1.0):
        torch.testing.assert_close(*both(qkv, lowered, scale=scale))
    exact = tuple(x.double() for x in qkv)
    torch.testing.assert_close(*both(exact, lowered))


def test_vectors_that_queries_read_are_never_shared(qkv) -> None:
    lowered = pe.lower(pe.Shaw(DIM, values=False), positions())
    torch.testing.assert_close(*both(qkv, lowered))
    torch.testing.assert_close(*both((qkv[0] + 1, *qkv[1:]), lowered))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_what_is_kept_without_gradients_serves_a_call_with_them(mode, qkv) -> None:
    table = torch.randn(HEADS, 2 * KEYS, requires_grad=True)
    lowered = pe.lower(DistanceTable(table, KEYS), positions())
    with mode():
        both(qkv, lowered)
    q, k, v = (x.clone().requires_grad_() for x in qkv)
    gradients = [
        torch.autograd.grad(out.square().sum(), (q, k, v, table))
        for out in both((q, k, v), lowered)
    ]
    torch.testing.assert_close(*gradients)


def test_terms_of_inference_mode_are_kept_too(qkv, made) -> None:
    with torch.inference_mode():
        lowered = pe.lower(pe.T5Bias(HEADS), positions())
        for _ in range(2):
            torch.testing.assert_close(*both(qkv, lowered))
    assert len(made) == 1


def test_a_mask_with_a_gradient_is_made_for_each_backward_pass(qkv) -> None:
    slopes = torch.rand(HEADS, requires_grad=True)
    lowered = pe.lower(pe.terms.Slope(slopes), positions())
    first, second = (
        torch.autograd.grad(pe.attend(*qkv, lowered, backend="sdpa").square().sum(), slopes)
        for _ in range(2)
    )
    torch.testing.assert_close(first, second)


def test_a_table_that_was_written_to_is_read_again(qkv) -> None:
    table = torch.randn(HEADS, 2 * KEYS)
    lowered = pe.lower(DistanceTable(table, KEYS), positions())
    both(qkv, lowered)
    table.mul_(2)
    torch.testing.assert_close(*both(qkv, lowered))


def test_a_transform_neither_keeps_nor_reads(qkv) -> None:
    lowered = pe.lower(pe.SlidingWindow(4), positions())
    q, k, v = qkv

    def loss(q: Tensor) -> Tensor:
        return pe.attend(q, k, v, lowered, backend="sdpa").square().sum()

    gradient = torch.func.grad(loss)(q)
    loss(q)
    torch.testing.assert_close(torch.func.grad(loss)(q), gradient)
    torch.testing.assert_close(*both(qkv, lowered))


def test_a_large_mask_is_not_kept(qkv, made, monkeypatch) -> None:
    monkeypatch.setattr(sdpa, "_KEPT", 2 * HEADS * 3 * KEYS - 1)
    lowered = pe.lower(pe.ALiBi(HEADS), positions())
    for _ in range(2):
        both(qkv, lowered)
    assert len(made) == 2
