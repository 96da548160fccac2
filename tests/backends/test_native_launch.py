"""How the C attention kernels are called: memory, strides, threads, forks and graphs."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import posenc as pe
from posenc import UnsupportedError, attend
from posenc import terms as t
from posenc.native.attention_operators import LEARNED, Inputs
from posenc.native.library import LIBRARY
from tests.support.native_kernels import (
    BOUNDS,
    SHAPES,
    check,
    close,
    every_kind,
    learned,
    learns_alike,
    with_gradients,
)
from tests.support.oracles import drawing
from tests.support.term_examples import Sizes, inputs

pytestmark = pytest.mark.skipif(isinstance(LIBRARY, str), reason=str(LIBRARY))


@contextmanager
def poisoned() -> Iterator[None]:
    """torch.empty gives NaNs, the kernel's scratch included."""
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(3).isnan().all()
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def test_nothing_is_read_before_it_is_written() -> None:
    with poisoned():
        for shape in ("129, d = 96", "many query heads of one key head", "one token"):
            s = SHAPES[shape]
            for dtype in BOUNDS:
                check(s, every_kind(s, drawing(14)), dtype, causal=True)


@pytest.mark.parametrize(
    "rules", [[], [t.Window(3)], [t.Window(7), t.Sink(3)], [t.Window(70), t.Sink(5)]], ids=str
)
@pytest.mark.parametrize("causal", [True, False])
def test_no_word_is_read_before_it_is_written(rules: list[t.MaskRule], causal: bool) -> None:
    """Words hold two neighbours, and rules begin and end between them."""
    s = Sizes(1, 2, 1, 133, 133, 33, 31)
    terms = [t.Mask(rule) for rule in rules]
    with poisoned():
        check(s, terms, torch.bfloat16, causal=causal)


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(("batch", "heads"), [(1, 1), (1, 3), (2, 2)])
def test_threads_share_few_heads_and_repeat_themselves(batch: int, heads: int) -> None:
    s = Sizes(batch, heads, heads, 300, 300, 16, 16)
    leaves = [x.float().requires_grad_() for x in inputs(s, drawing(15))]
    terms = every_kind(s, drawing(16))
    leaves += learned(terms)
    with threads(1):
        expected = with_gradients("native", leaves, terms, causal=True)
    for count in (2, 3):
        with threads(count):
            runs = [with_gradients("native", leaves, terms, causal=True) for _ in range(3)]
        for run in runs:
            close(run, expected, torch.float32)
            assert all(torch.equal(x, y) for x, y in zip(run, runs[0], strict=True))


def test_threads_of_python_may_call_it_at_once() -> None:
    s = Sizes(1, 2, 1, 129, 129, 16, 16)
    leaves = [x.requires_grad_() for x in inputs(s, drawing(17))]
    expected = with_gradients("native", leaves, [], causal=True)
    results: list[list[Tensor]] = []

    def run() -> None:
        for _ in range(5):
            results.append(with_gradients("native", leaves, [], causal=True))

    workers = [threading.Thread(target=run) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(results) == 20
    for result in results:
        close(result, expected)


FORKS = """
import os, torch
from posenc import ALiBi, attend
torch.set_num_threads(2)
q = torch.ones(1, 4, 300, 8, requires_grad=True)
attend(q, q, q, ALiBi(4), causal=True, backend="native").sum().backward()
child = os.fork()
if child == 0:
    attend(q, q, q, ALiBi(4), causal=True, backend="native").sum().backward()
    os._exit(0)
raise SystemExit(os.waitpid(child, 0)[1])
"""


def test_a_forked_child_does_not_wait_for_threads_it_does_not_have() -> None:
    assert (
        subprocess.run([sys.executable, "-W", "ignore", "-c", FORKS], check=False).returncode == 0
    )


def heads_inside(x: Tensor) -> Tensor:
    """The same numbers, heads inside of tokens, as the projections of a layer leave them."""
    return x.transpose(1, 2).contiguous().transpose(1, 2)


LAYOUTS: dict[str, Any] = {
    "heads inside": heads_inside,
    "beside others": lambda x: torch.stack((x, x), dim=2)[:, :, 1],
    "inside, beside others": lambda x: heads_inside(torch.cat((x, x), dim=-1))[..., : x.shape[-1]],
    "columns": lambda x: x.mT.contiguous().mT,
    "of all heads": lambda x: x[:, :1].expand_as(x),
}


WITH_OWN_OF_EACH_LAYER = {
    "counts": pe.CoPE(8, 12).requires_grad_(False),
    "zones": pe.ReRoPE(8, window=20),
}


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("queries", [1, 70])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("layout", ["heads inside", "columns"])
@pytest.mark.parametrize("own", WITH_OWN_OF_EACH_LAYER)
def test_what_a_layer_has_of_its_own_is_read_alike_without_gradients(
    own: str, layout: str, dtype: torch.dtype, queries: int, dropout: float
) -> None:
    """Without gradients no operator is called, and the call is packed but for this."""
    s = Sizes(2, 4, 2, queries, 70, 8, 5)
    q, k, v = (LAYOUTS[layout](x.to(dtype)) for x in inputs(s, drawing(22)))
    lowered = pe.lower(
        WITH_OWN_OF_EACH_LAYER[own], pe.Positions.build(queries, 70, causal=True), dtype=dtype
    )

    def attended() -> Tensor:
        torch.manual_seed(3)
        return attend(q, k, v, lowered, dropout=dropout, backend="native")

    expected = attended()
    with torch.no_grad():
        for _ in range(2):
            assert torch.equal(attended(), expected)
    q.requires_grad_()
    learns_alike(attended().detach(), expected, has_terms=own == "counts")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_strides_do_not_matter(layout: str, dtype: torch.dtype) -> None:
    s = Sizes(1, 2, 1, 70, 70, 8, 5)
    moved = [LAYOUTS[layout](x.to(dtype)) for x in inputs(s, drawing(20))]
    for terms in (every_kind(s, drawing(21)), [pe.ReRoPE(8, window=20)], [pe.CoPE(8, 12)]):
        # With two threads one key head is shared by chunks.
        for count in (1, 2):
            with threads(count):
                results = [
                    with_gradients("native", [x.requires_grad_() for x in qkv], terms, causal=True)
                    for qkv in (moved, [x.detach().contiguous() for x in moved])
                ]
            # PyTorch rotates for zones where the kernel cannot, which rounds otherwise.
            close(*results, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_results_have_heads_inside_where_their_tensors_have(dtype: torch.dtype) -> None:
    """So that a layer turns them back by views, and copies nothing."""
    s = Sizes(2, 4, 2, 70, 70, 8, 5)
    leaves = [heads_inside(x.to(dtype)).requires_grad_() for x in inputs(s, drawing(20))]
    for result in with_gradients("native", leaves, [pe.ALiBi(4)], causal=True):
        assert result.transpose(1, 2).is_contiguous()
    with torch.no_grad():
        out = attend(*leaves, pe.ALiBi(4), causal=True, backend="native")
    assert out.transpose(1, 2).is_contiguous()
    outside = [x.detach().contiguous().requires_grad_() for x in leaves]
    for result in with_gradients("native", outside, [pe.ALiBi(4)], causal=True):
        assert result.is_contiguous()


@pytest.mark.unchecked
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_graph_knows_how_results_lie(layout: str, dtype: torch.dtype) -> None:
    s = Sizes(2, 4, 2, 70, 70, 8, 5)
    qkv = [LAYOUTS[layout](x.to(dtype)) for x in inputs(s, drawing(20))]
    out = attend(*qkv, causal=True, backend="native")
    call = Inputs(*qkv, causal=True, learns=True)
    forward, backward = torch.ops.posenc.attention, torch.ops.posenc.attention_backward
    _, exact, *rows = forward(*call)
    wanted = [name in ("q", "k", "v") for name in LEARNED]
    kept = (out, rows[1], exact if exact.numel() else out, *rows, wanted)
    for operator, given in ((forward, call), (backward, (*kept, *call))):
        torch.library.opcheck(operator.default, tuple(given), test_utils="test_faketensor")


def test_a_gradient_of_the_gradient_is_refused() -> None:
    q = torch.ones(1, 2, 20, 8, requires_grad=True)
    out = attend(q, q, q, pe.ALiBi(2), causal=True, backend="native")
    (grad,) = torch.autograd.grad(out.sum(), q, create_graph=True)
    with pytest.raises(UnsupportedError, match=r"no gradient of its gradient.*reference"):
        grad.sum().backward()


@pytest.mark.graph
def test_a_graph_holds_one_node_for_any_length() -> None:
    table = torch.randn(2, 9, requires_grad=True)

    def run(q: Tensor) -> Tensor:
        return attend(q, q, q, t.DistanceTable(table, 8, saturates=True), causal=True)

    seen_nodes: list[str] = []

    def spy(graph: torch.fx.GraphModule, _: list) -> torch.fx.GraphModule:
        seen_nodes.extend(str(node.target) for node in graph.graph.nodes)
        return graph

    torch._dynamo.reset()
    compiled = torch.compile(run, fullgraph=True, dynamic=True, backend=spy)
    for length in (70, 131):
        q = torch.randn(1, 2, length, 8, requires_grad=True)
        got, wanted = (
            [out, *torch.autograd.grad(out.sum(), [q, table])] for out in (compiled(q), run(q))
        )
        close(got, wanted, torch.float32)
    assert seen_nodes.count("posenc.attention.default") == 1
    assert not any("softmax" in name for name in seen_nodes)


class _Watching(TorchDispatchMode):
    """Sees every operator, as tools that count or record them do."""

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("encoding", [None, pe.ALiBi(4), pe.T5Bias(4), pe.Shaw(16, clip=3)])
def test_a_call_without_the_operator_gives_its_bits(encoding: Any, dtype: torch.dtype) -> None:
    q, k, v = (x.to(dtype).requires_grad_() for x in torch.randn(3, 2, 4, 9, 16))
    leaves = [q, k, v, *(encoding.parameters() if encoding else ())]

    def run() -> list[Tensor]:
        out = attend(q, k, v, encoding, causal=True, backend="native")
        grads = torch.autograd.grad(out.square().sum(), leaves, allow_unused=True)
        return [out, *(grad for grad in grads if grad is not None)]

    straight = run()
    with torch.no_grad():
        alone = attend(q, k, v, encoding, causal=True, backend="native")
        with _Watching():
            assert torch.equal(attend(q, k, v, encoding, causal=True, backend="native"), alone)
    with _Watching():
        watched = run()
    learns_alike(straight[0], alone, has_terms=encoding is not None)
    assert len(straight) == len(watched) >= 4
    assert all(torch.equal(a, b) for a, b in zip(straight, watched, strict=True))


def test_the_kernel_works_where_its_tensors_are() -> None:
    q = torch.randn(1, 2, 9, 8)
    expected = attend(q, q, q, pe.ALiBi(2), causal=True, backend="native")
    lowered = pe.lower(pe.ALiBi(2), 9, causal=True)
    with torch.device("meta"):
        assert torch.equal(attend(q, q, q, lowered, backend="native"), expected)
