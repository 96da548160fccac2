"""The C kernel that rotates q and k, in graphs and in threads of Python."""

import threading

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc.native.library import LIBRARY
from tests.support.native_kernels import normal

pytestmark = pytest.mark.skipif(isinstance(LIBRARY, str), reason=str(LIBRARY))


@pytest.mark.graph
@pytest.mark.parametrize("inplace", [False, True])
def test_a_compiled_graph_holds_one_node(inplace: bool) -> None:
    torch._dynamo.reset()
    nodes: list[str] = []

    def backend(graph: torch.fx.GraphModule, _: object) -> object:
        called = [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]
        nodes.extend(target for target in called if "posenc" in target)
        return graph.forward

    lowered = pe.lower(pe.Rotary(8), 5)
    run = torch.compile(
        lambda q, k: pe.rotate(q, k, lowered, inplace=inplace), fullgraph=True, backend=backend
    )
    q, k = normal(1, 4, 5, 8), normal(1, 2, 5, 8)
    expected = pe.rotate(q, k, lowered)
    torch.testing.assert_close(run(q, k), expected)
    assert nodes == ["posenc.rotate_.default" if inplace else "posenc.rotate.default"]
    assert (q is not expected[0] and torch.equal(q, expected[0])) == inplace


@pytest.mark.graph
@pytest.mark.parametrize("inplace", [False, True])
def test_compiled_gradients_are_those_of_eager(inplace: bool) -> None:
    torch._dynamo.reset()
    lowered = pe.lower(pe.Rotary(8), 5)

    def loss(q: Tensor, k: Tensor) -> Tensor:
        q, k = pe.rotate(q * 2.0, k * 3.0, lowered, inplace=inplace)
        return (q.sin() * k.cos()).sum()

    x = [normal(1, 4, 5, 8).requires_grad_() for _ in range(2)]
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    grads = [torch.autograd.grad(run(*x), x) for run in (loss, compiled)]
    torch.testing.assert_close(*grads)


@pytest.mark.graph
@pytest.mark.parametrize("inplace", [False, True])
def test_compiled_too_what_needs_no_gradient_gets_none(inplace: bool) -> None:
    torch._dynamo.reset()
    lowered = pe.lower(pe.Rotary(8), 5)

    def run(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return pe.rotate(q * 2.0, k, lowered, inplace=inplace)

    q, k = normal(1, 4, 5, 8).requires_grad_(), normal(1, 2, 5, 8)
    expected = run(q, k.clone())
    got = torch.compile(run, fullgraph=True, backend="aot_eager")(q, k)
    for x, y, needs in zip(got, expected, (True, False), strict=True):
        torch.testing.assert_close(x, y)
        assert x.requires_grad == y.requires_grad == needs
    assert not k.requires_grad


@pytest.mark.graph
def test_an_exported_program_holds_one_node_and_any_length() -> None:
    class Rotates(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rope = pe.Rotary(8)

        def forward(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
            return pe.rotate(q, k, self.rope)

    length = torch.export.Dim("length", min=2, max=64)
    inputs = normal(1, 4, 5, 8), normal(1, 2, 5, 8)
    program = torch.export.export(Rotates(), inputs, dynamic_shapes=({2: length}, {2: length}))
    targets = [str(node.target) for node in program.graph.nodes]
    assert targets.count("posenc.rotate.default") == 1
    other = normal(1, 4, 9, 8), normal(1, 2, 9, 8)
    torch.testing.assert_close(program.module()(*other), Rotates()(*other))


def test_threads_of_python_may_rotate_at_once() -> None:
    lowered = pe.lower(pe.Rotary(64), 256)
    q, k = normal(2, 8, 256, 64), normal(2, 8, 256, 64)
    expected, rotated = pe.rotate(q, k, lowered), {}

    def run(name: int) -> None:
        torch.set_num_threads(2)
        for _ in range(5):
            rotated[name] = pe.rotate(q, k, lowered)

    threads = [threading.Thread(target=run, args=(name,)) for name in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in range(3):
        assert all(torch.equal(x, y) for x, y in zip(rotated[name], expected, strict=True))
