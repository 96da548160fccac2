"""Layers that share lowered terms: those after the first ask less, and give the same."""

import copy
import itertools
import pickle
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import attention, plain_layer
from posenc.native import attention as kernel
from posenc.native import attention_packed, rotary_ops
from posenc.native.attention_struct import CallStruct
from posenc.native.library import LIBRARY
from posenc.terms import DistanceTable, GatherTable, Offset, Slope, Term, ValueTable
from tests.support.steps import recorded

KEYS, DIM, HEADS = 40, 8, 4
ENCODINGS: dict[str, Any] = {
    "nothing": lambda: None,
    "rotary": lambda: pe.Rotary(DIM),
    "xpos": lambda: pe.XPos(DIM),
    "alibi": lambda: pe.ALiBi(HEADS),
    "t5": lambda: pe.T5Bias(HEADS),
    "fire": lambda: pe.FIRE(HEADS, width=8),
    "shaw": lambda: pe.Shaw(DIM, clip=4),
    "transformer_xl": lambda: pe.TransformerXL(16, heads=HEADS, head_dim=DIM),
    "cope": lambda: pe.CoPE(DIM),
    "rerope": lambda: pe.ReRoPE(DIM, window=5),
    "window": lambda: [pe.Rotary(DIM), pe.SlidingWindow(3), pe.Sinks(1)],
    "temperature": lambda: [pe.Rotary(DIM), next(iter(pe.Temperature.examples()))],
}
# Whose next layer asks nothing; without kernels, vectors make a mask of each query.
QUICK = ["nothing", "rotary", "xpos", "alibi", "t5", "window"]
QUICK += [] if isinstance(LIBRARY, str) else ["shaw"]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each layer with lowered terms was computed as the one before."""
    return recorded(monkeypatch, "as_before")


def layer(queries: int, seed: int = 0, keys: int = KEYS, heads: int = HEADS) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = (2, HEADS, queries, DIM), (2, heads, keys, DIM), (2, heads, keys, DIM)
    return [torch.randn(shape, generator=generator) for shape in shapes]


def lowered_for(encoding: Any, queries: int) -> pe.Lowered:
    return pe.lower(encoding, pe.Positions.build(queries, KEYS, causal=True))


def close(actual: Tensor, *call: Any, **more: Any) -> None:
    """Whether this is what the equation gives for a call of attend."""
    expected = attention.attend(*call, backend="reference", **more)
    bound = 4 * torch.finfo(actual.dtype).eps if actual.dtype.itemsize < 4 else 2e-5
    torch.testing.assert_close(actual, expected, rtol=bound, atol=bound)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("queries", [1, 16, KEYS])
@pytest.mark.parametrize("name", ENCODINGS)
def test_every_layer_gives_what_it_gives_alone(
    name: str, queries: int, dtype: torch.dtype, taken: list[bool]
) -> None:
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
    ways = [
        lambda x: x,
        lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
        lambda x: x.mT.contiguous().mT,
        lambda x: torch.cat((x, x), dim=-1)[..., :DIM],
    ]
    with torch.no_grad():
        for first, then in itertools.permutations(ways, 2):
            attention.attend(*map(first, tensors), shared)
            close(attention.attend(*map(then, tensors), shared), *tensors, shared)


@pytest.mark.skipif(isinstance(LIBRARY, str), reason=str(LIBRARY))
@pytest.mark.parametrize("name", ["t5", "alibi", "shaw"])
def test_a_layer_keeps_what_its_kernel_reads(name: str, taken: list[bool]) -> None:
    """A call at another scale packs the terms anew, of which a layer had those before."""
    shared, tensors = lowered_for(ENCODINGS[name](), KEYS), layer(KEYS)
    assert pe.explain_backend(*tensors, shared) == "native: taken"
    with torch.no_grad():
        before = attention.attend(*tensors, shared)
        attention.attend(*tensors, shared, scale=0.3, backend="native")
        # Memory that was freed is given out again, and stays so until the end.
        held = [torch.full((size,), torch.nan) for size in range(1, 2000)]
        assert torch.equal(attention.attend(*tensors, shared), before)
    held.clear()
    assert taken == [False, True]


@pytest.mark.skipif(isinstance(LIBRARY, str), reason=str(LIBRARY))
def test_kernels_have_the_threads_of_their_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of OpenMP are gone in a process that was forked, where there is one."""
    shared, tensors = lowered_for(pe.ALiBi(HEADS), KEYS), layer(KEYS)
    workers: list[int] = []

    def watched(call: CallStruct, *given: Any, **settings: bool) -> None:
        workers.append(call.workers)
        run(call, *given, **settings)

    run = kernel.run
    for module in (kernel, attention_packed):
        monkeypatch.setattr(module, "run", watched)
    with torch.no_grad():
        for threads in (1, 1, 2, 1):
            monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
            attention.attend(*tensors, shared)
    assert workers == [1, 1, 2, 1]


@pytest.mark.skipif(isinstance(LIBRARY, str), reason=str(LIBRARY))
def test_rotations_have_the_threads_of_their_call(monkeypatch: pytest.MonkeyPatch) -> None:
    shared, tensors = lowered_for(pe.Rotary(DIM), 16), layer(16)
    workers: list[int] = []

    def watched(call: tuple[bytes, ...], *given: Any) -> None:
        workers.append(memoryview(call[0]).cast("q")[5])
        run(call, *given)

    run = rotary_ops.run_packed
    monkeypatch.setattr(rotary_ops, "run_packed", watched)
    with torch.no_grad():
        for threads in (1, 1, 2, 1):
            monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
            attention.attend(*tensors, shared)
    assert workers == [1, 1, 2, 1]


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


@pytest.mark.parametrize("queries", [1, 16])
@pytest.mark.parametrize("name", ENCODINGS)
def test_terms_are_freed_without_a_search_for_garbage(name: str, queries: int) -> None:
    shared = lowered_for(ENCODINGS[name](), queries)
    with torch.no_grad():
        for seed in range(2):
            attention.attend(*layer(queries, seed), shared)
    known = weakref.ref(shared)
    del shared
    assert known() is None


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


def terms(queries: int = 16) -> dict[str, tuple[list[Term], Tensor]]:
    """Terms, and a tensor of theirs."""
    generator = torch.Generator().manual_seed(1)

    def numbers(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    table, slopes, offsets = numbers(HEADS, 2 * KEYS), numbers(HEADS), numbers(1, HEADS, KEYS)
    transposed = numbers(2 * KEYS, HEADS).T
    on_query, on_value = numbers(1, 9, DIM), numbers(1, 9, DIM)
    return {
        "table": ([DistanceTable(table, KEYS)], table),
        "transposed": ([DistanceTable(transposed, KEYS)], transposed),
        "slopes": ([Slope(slopes)], slopes),
        "offsets": ([Offset(offsets[..., :queries], offsets)], offsets),
        "on query": ([GatherTable(on_query, 4, "q", saturates=True)], on_query),
        "on value": ([ValueTable(on_value, 4, saturates=True)], on_value),
    }


@pytest.mark.parametrize("queries", [1, 16, KEYS])
@pytest.mark.parametrize("grads", [False, True])
@pytest.mark.parametrize("name", terms())
def test_what_is_written_to_between_layers_is_read(name: str, grads: bool, queries: int) -> None:
    parts, written = terms(queries)[name]
    shared = lowered_for(parts, queries)
    tensors = layer(queries)
    with torch.set_grad_enabled(grads):
        before = attention.attend(*tensors, shared)
        assert torch.equal(attention.attend(*tensors, shared), before)
        written.mul_(-0.5)
        table = shared.form.table
        if table is not None and table.values is not written:
            table.values.mul_(-0.5)
        after = attention.attend(*tensors, shared)
        assert not torch.equal(after, before)
        close(after, *tensors, shared)


COPIES: dict[str, Any] = {
    "copied": copy.deepcopy,
    "stored": lambda lowered: pickle.loads(pickle.dumps(lowered)),
}


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("queries", [1, 16])
@pytest.mark.parametrize("name", ENCODINGS)
def test_a_copy_reads_no_memory_of_the_original(name: str, queries: int, way: str) -> None:
    """What a layer leaves beside the terms holds addresses, which are those of the original."""
    tensors = layer(queries)
    with torch.no_grad():
        shared = lowered_for(ENCODINGS[name](), queries)
        before = attention.attend(*tensors, shared)
        other = COPIES[way](shared)
        kept: list[Any] = [shared.form]
        for value in kept:
            if isinstance(value, Tensor):
                value.fill_(torch.nan if value.is_floating_point() else 0)
            elif isinstance(value, (tuple, list)):
                kept.extend(value)
            elif hasattr(value, "__dict__") and type(value).__module__.startswith("posenc."):
                kept.extend(vars(value).values())
        assert torch.equal(attention.attend(*tensors, other), before)


def test_other_memory_of_a_parameter_is_read() -> None:
    encoding = pe.FIRE(HEADS, width=8).double()
    shared = lowered_for(encoding, 16)
    tensors = [x.double() for x in layer(16)]
    with torch.no_grad():
        before = attention.attend(*tensors, shared)
        bias = encoding.output.weight
        bias.data = bias.data * -2.0
        after = attention.attend(*tensors, shared)
        assert not torch.equal(after, before)
        close(after, *tensors, shared)


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


def test_terms_learn_after_layers_that_did_not() -> None:
    """A step of the optimiser between layers changes what the terms of a network say."""
    encoding = pe.FIRE(HEADS, width=8)
    shared = lowered_for(encoding, 16)
    tensors = layer(16)
    with torch.no_grad():
        attention.attend(*tensors, shared)
        encoding.output.weight.add_(1.0)
        close(attention.attend(*tensors, shared), *tensors, shared)
