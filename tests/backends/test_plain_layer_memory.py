"""What a layer leaves for the next of memory that it does not own, and of threads."""

import copy
import pickle
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import attention
from posenc.native import attention as kernel
from posenc.native import attention_packed, rotary_ops
from posenc.native.attention_struct import CallStruct
from posenc.native.library import LIBRARY
from posenc.terms import DistanceTable, GatherTable, Offset, Slope, Term, ValueTable
from tests.support.layers import DIM, ENCODINGS, HEADS, KEYS, close, layer, lowered_for
from tests.support.steps import recorded


@pytest.mark.skipif(isinstance(LIBRARY, str), reason=str(LIBRARY))
@pytest.mark.parametrize("name", ["t5", "alibi", "shaw"])
def test_a_layer_keeps_what_its_kernel_reads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call at another scale packs the terms anew, of which a layer had those before."""
    taken = recorded(monkeypatch, "as_before")
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


def test_terms_learn_after_layers_that_did_not() -> None:
    """A step of the optimiser between layers changes what the terms of a network say."""
    encoding = pe.FIRE(HEADS, width=8)
    shared = lowered_for(encoding, 16)
    tensors = layer(16)
    with torch.no_grad():
        attention.attend(*tensors, shared)
        encoding.output.weight.add_(1.0)
        close(attention.attend(*tensors, shared), *tensors, shared)
