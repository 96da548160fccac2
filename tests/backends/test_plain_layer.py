"""Layers that share lowered terms: those after the first ask less, and give the same."""

import itertools

import pytest
import torch

import posenc as pe
from posenc import attention, plain_layer
from posenc.native.library import LIBRARY
from tests.support.layers import DIM, ENCODINGS, HEADS, KEYS, WAYS, close, layer, lowered_for
from tests.support.steps import recorded

# Whose next layer asks nothing; without kernels, vectors make a mask of each query.
QUICK = ["nothing", "rotary", "xpos", "alibi", "t5", "window"]
QUICK += [] if isinstance(LIBRARY, str) else ["shaw"]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("queries", [1, 16, KEYS])
@pytest.mark.parametrize("name", ENCODINGS)
def test_every_layer_gives_what_it_gives_alone(
    name: str, queries: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = recorded(monkeypatch, "as_before")
    encoding = ENCODINGS[name]()
    shared = lowered_for(encoding, queries)
    for seed in range(3):
        tensors = [x.to(dtype) for x in layer(queries, seed)]
        with torch.no_grad():
            actual = attention.attend(*tensors, shared)
            alone = attention.attend(*tensors, lowered_for(encoding, queries))
        assert torch.equal(actual, alone)
        close(actual, *tensors, shared)
    assert taken[::2] == [False, True, True]


def test_other_layouts_and_sizes_are_told_apart() -> None:
    """What is packed of one layer holds for no other shape and no other steps in memory."""
    shared = lowered_for([pe.Rotary(DIM), pe.ALiBi(HEADS)], 16)
    for seed, heads in itertools.product(range(2), (HEADS, 2, 1)):
        q, k, v = layer(16, seed, heads=heads)
        by_token = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
        by_dim = [x.mT.contiguous().mT for x in (q, k, v)]
        for tensors in ((q, k, v), by_token, by_dim, (q[:1], k[:1], v[:1]), (q, k, v[..., :5])):
            for scale in (None, 0.5):
                actual = attention.attend(*tensors, shared, scale=scale)
                close(actual, *tensors, shared, scale=scale)


@pytest.mark.parametrize("queries", [1, 16, KEYS])
@pytest.mark.parametrize("name", QUICK)
def test_the_next_layer_may_lie_otherwise_in_memory(name: str, queries: int) -> None:
    """Shapes and dtypes alone say that a layer is like the one before."""
    shared, tensors = lowered_for(ENCODINGS[name](), queries), layer(queries)
    with torch.no_grad():
        for first, then in itertools.permutations(WAYS, 2):
            attention.attend(*map(first, tensors), shared)
            close(attention.attend(*map(then, tensors), shared), *tensors, shared)


@pytest.mark.parametrize("queries", [1, 16, KEYS])
@pytest.mark.parametrize("name", QUICK)
def test_the_next_layer_builds_no_call(
    name: str, queries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the first layer left is all that runs, with no question to its backend."""
    shared, tensors = lowered_for(ENCODINGS[name](), queries), layer(queries)
    with torch.no_grad():
        before = attention.attend(*tensors, shared)
        monkeypatch.setattr(plain_layer, "fitting", None)
        assert torch.equal(attention.attend(*tensors, shared), before)


@pytest.mark.unchecked
def test_what_does_not_fit_is_refused_after_a_layer_that_did() -> None:
    shared = lowered_for(pe.ALiBi(HEADS), 16)
    q, k, v = layer(16)
    attention.attend(q, k, v, shared)
    with pytest.raises(pe.PositionsError, match="16 queries and 39 keys"):
        attention.attend(q, k[:, :, 1:], v[:, :, 1:], shared)
    with pytest.raises(pe.PositionsError, match="causal=False"):
        attention.attend(q, k, v, shared, causal=False)
    with pytest.raises(pe.ShapeError, match="has 8"):
        attention.attend(torch.cat((q, q), 1), k, v, shared)
    with pytest.raises(pe.ShapeError, match="batch"):
        attention.attend(q, k, v[:1], shared)


def test_padding_is_unseen_in_every_layer() -> None:
    mask = torch.arange(KEYS)[None].expand(2, -1) >= torch.tensor([[3], [0]])
    positions = pe.Positions.build(16, KEYS, causal=True, attention_mask=mask)
    shared = pe.lower(pe.ALiBi(HEADS), positions)
    for seed in range(3):
        q, k, v = layer(16, seed)
        expected = attention.attend(q, k, v, shared, backend="reference")
        k[0, :, :3] = v[0, :, :3] = torch.nan
        torch.testing.assert_close(attention.attend(q, k, v, shared), expected)


def test_queries_of_padding_ask_alike_in_every_layer() -> None:
    """Also beside keys of which none is padding."""
    real = torch.arange(16)[None].expand(2, -1) >= torch.tensor([[3], [0]])
    asking = pe.Tokens(torch.arange(16), valid=real)
    positions = pe.Positions(asking, pe.Tokens(torch.arange(KEYS)))
    shared = pe.lower(pe.ALiBi(HEADS), positions)
    for seed in range(3):
        q, k, v = layer(16, seed)
        q[0, :, :3] = 0.0
        expected = attention.attend(q, k, v, shared, backend="reference")
        q[0, :, :3] = torch.nan
        torch.testing.assert_close(attention.attend(q, k, v, shared), expected)


@pytest.mark.parametrize("name", ["alibi", "t5", "fire", "shaw", "transformer_xl", "rotary"])
def test_every_layer_has_its_gradient(name: str) -> None:
    encoding = ENCODINGS[name]()
    learned = list(encoding.parameters())
    layers = [[x.requires_grad_() for x in layer(16, seed)] for seed in range(2)]
    found = []
    for backend in ("auto", "reference"):
        shared = lowered_for(encoding, 16)
        with torch.no_grad():
            attention.attend(*layers[0], shared)
        out = sum(attention.attend(*x, shared, backend=backend).square().sum() for x in layers)
        inputs = [x for tensors in layers for x in tensors] + learned
        found.append(torch.autograd.grad(out, inputs, allow_unused=True, retain_graph=True))
        again = torch.autograd.grad(out, inputs, allow_unused=True)
        for one, other in zip(found[-1], again, strict=True):
            assert (one is None and other is None) or torch.equal(one, other)
    for actual, expected in zip(*found, strict=True):
        if expected is not None:
            torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("queries", [1, 16])
def test_what_learns_from_now_on_gets_its_gradient(queries: int) -> None:
    values, (q, k, v) = torch.randn(HEADS, 9), layer(queries)
    shared = lowered_for(pe.terms.DistanceTable(values, 4, saturates=True), queries)
    attention.attend(q, k, v, shared)
    values.requires_grad_()
    assert attention.attend(q, k, v, shared).requires_grad
