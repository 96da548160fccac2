"""The C kernel that turns q and k, against the rotation that PyTorch computes."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc.native import turning
from posenc.native.library import INTERFACE, LIBRARY, load
from posenc.native.memory import writable
from posenc.rotation import rotate_pairs

pytestmark = pytest.mark.skipif(isinstance(LIBRARY, str), reason=str(LIBRARY))
BOUNDS = {torch.float32: 1e-6, torch.bfloat16: 2**-7, torch.float64: 1e-14}
LAYOUTS = ("half", "interleaved")


def tables(tokens: int, pairs: int, dtype: torch.dtype, batch: int = 1) -> tuple[Tensor, Tensor]:
    angle = torch.rand(batch, 1, tokens, pairs, dtype=torch.float64) * 6.3
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    return angle.cos().to(wide), angle.sin().to(wide)


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, dtype=torch.float64).to(dtype)


@pytest.fixture
def kernel_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each call that reached the kernel."""
    calls: list[int] = []
    run = turning._run

    def counted(fields: list[int], *rest: object) -> None:
        calls.append(len(fields))
        run(fields, *rest)

    monkeypatch.setattr(turning, "_run", counted)
    return calls


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("dim", [8, 40, 64, 80, 96, 128, 130])
def test_it_equals_the_rotation(
    dtype: torch.dtype, layout: str, dim: int, kernel_calls: list[int]
) -> None:
    torch.manual_seed(dim)
    for batch, tokens, pairs, start in (
        (1, 1, dim // 2, 0),
        (2, 63, dim // 2, 0),
        (2, 129, dim // 2 - 1, 2),
        (1, 5, 3, dim - 6),
        (3, 2, 1, 1),
    ):
        q = normal(batch, 6, tokens, dim, dtype=dtype)
        # Grouped keys, as a projection makes them: tokens lie further apart than heads.
        k = normal(batch, tokens, 3, dim, dtype=dtype).transpose(1, 2)
        cos, sin = tables(tokens, pairs, dtype, batch)
        settings = layout, start
        found = turning.turned((q, k), (cos, cos), (sin, sin), *settings)
        for x, y in zip((q, k), found, strict=True):
            expected = rotate_pairs(x, cos, sin, *settings).to(dtype)
            torch.testing.assert_close(y, expected, rtol=BOUNDS[dtype], atol=BOUNDS[dtype])
            assert torch.equal(y[..., :start], x[..., :start])
            assert torch.equal(y[..., start + 2 * pairs :], x[..., start + 2 * pairs :])
        kept = q.clone(), k.clone()
        turning.turned_(kept, (cos, cos), (sin, sin), *settings)
        assert all(torch.equal(x, y) for x, y in zip(kept, found, strict=True))
    assert len(kernel_calls) == 10


@pytest.mark.parametrize("layout", LAYOUTS)
def test_angles_may_differ_by_batch_head_and_tensor(layout: str, kernel_calls: list[int]) -> None:
    q, k = normal(2, 4, 7, 48), normal(2, 4, 9, 48)
    angles = torch.rand(2, 4, 9, 24) * 6.3
    turns = [(angles[:, :, 2:].cos(), angles[:, :, 2:].sin()), (angles.cos(), angles.sin())]
    cos, sin = zip(*turns, strict=True)
    for x, y, c, s in zip((q, k), turning.turned((q, k), cos, sin, layout), cos, sin, strict=True):
        torch.testing.assert_close(y, rotate_pairs(x, c, s, layout), rtol=1e-6, atol=1e-6)
    assert kernel_calls


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_are_exact(layout: str, inplace: bool) -> None:
    lowered = pe.lower(pe.Rotary(6, layout=layout, rotary_dim=4), 2, dtype=torch.float64)
    q, k = (normal(1, heads, 2, 6, dtype=torch.float64).requires_grad_() for heads in (2, 1))

    def run(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return pe.rotate(q * 1.0, k * 1.0, lowered, inplace=inplace)

    assert torch.autograd.gradcheck(run, (q, k))
    assert torch.autograd.gradgradcheck(run, (q, k))


def test_learned_frequencies_get_their_gradient() -> None:
    x = normal(1, 2, 5, 8)
    grads = []
    for run in (rotate_pairs, lambda x, c, s, layout: turning.turned((x,), (c,), (s,), layout)[0]):
        angle = torch.linspace(0.1, 2.0, 20).view(1, 1, 5, 4).requires_grad_()
        (run(x, angle.cos(), angle.sin(), "half") ** 3).sum().backward()
        grads.append(angle.grad)
    torch.testing.assert_close(*grads)


def test_in_place_keeps_what_other_gradients_need() -> None:
    """A tensor that a gradient still needs may not change unnoticed."""
    rope, weight = pe.Rotary(8), torch.ones(8, requires_grad=True)
    q, k = normal(1, 2, 3, 8), normal(1, 2, 3, 8)
    product = q * weight
    pe.rotate(q, k, rope, inplace=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()
    result = (normal(1, 2, 3, 8) * weight).exp()
    pe.rotate(result, k, rope, inplace=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


@pytest.mark.parametrize("place", ["given", "both sides of a sum", "hook", "alone"])
def test_a_gradient_that_somebody_reads_is_not_overwritten(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turning, "_HUGE", 1)
    lowered = pe.lower(pe.Rotary(8), 5)
    leaves = [normal(1, 2, 5, 8).requires_grad_() for _ in range(2)]
    gradient = normal(1, 2, 5, 8)
    seen: list[Tensor] = []

    def backward(inplace: bool) -> list[Tensor]:
        q, k = pe.rotate(leaves[0] * 1.0, leaves[1] * 1.0, lowered, inplace=inplace)
        if place == "hook":
            q.register_hook(seen.append)
        if place == "given":
            torch.autograd.backward([q, k], [gradient, gradient])
        elif place == "both sides of a sum":
            (q + k).mul(gradient).sum().backward()
        else:
            (q * k).mul(gradient).sum().backward()
        found = [leaf.grad for leaf in leaves]
        for leaf in leaves:
            leaf.grad = None
        return found

    kept = gradient.clone()
    for got, wanted in zip(backward(True), backward(False), strict=True):
        torch.testing.assert_close(got, wanted)
    assert torch.equal(gradient, kept)
    if place == "hook":
        torch.testing.assert_close(*seen)


def test_a_gradient_without_readers_is_turned_where_it_lies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turning, "_HUGE", 1)
    places: list[list[int]] = []

    class Seen(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, *x: Tensor) -> tuple[Tensor, ...]:
            return tuple(one.clone() for one in x)

        @staticmethod
        def backward(ctx: object, *grads: Tensor) -> tuple[Tensor, ...]:
            places.append([grad.data_ptr() for grad in grads])
            return grads

    x = [normal(1, 2, 5, 8).requires_grad_() for _ in range(2)]
    q, k = pe.rotate(*Seen.apply(*x), pe.Rotary(8), inplace=True)
    q, k = Seen.apply(q, k)
    (q * k).sum().backward()
    assert places[0] == places[1]


def test_in_place_is_refused_where_a_gradient_would_break() -> None:
    rope, x = pe.Rotary(4), normal(1, 1, 2, 4)
    leaf = normal(1, 1, 2, 4).requires_grad_()
    with pytest.raises(pe.UnsupportedError, match="q needs a gradient and is a leaf"):
        pe.rotate(leaf, x, rope, inplace=True)
    with pytest.raises(pe.UnsupportedError, match="k needs a gradient and is a view"):
        pe.rotate(x, (leaf * 1.0)[:], rope, inplace=True)
    with torch.no_grad():
        pe.rotate(leaf, x, rope, inplace=True)


def test_in_place_writes_into_slices_of_one_projection(kernel_calls: list[int]) -> None:
    lowered = pe.lower(pe.Rotary(8), 5)
    fused = normal(2, 5, 3, 4, 8)
    q, k, v = (part.transpose(1, 2) for part in fused.unbind(2))
    expected, kept = pe.rotate(q, k, lowered), v.clone()
    found = pe.rotate(q, k, lowered, inplace=True)
    assert all(torch.equal(x, y) for x, y in zip(found, expected, strict=True))
    assert found[0] is q
    assert torch.equal(v, kept)
    assert len(kernel_calls) == 2


def test_shared_memory_is_told_from_slices() -> None:
    x = torch.zeros(2, 5, 3, 4, 8)
    q, k, _ = x.unbind(2)
    assert writable(q, k)
    assert writable(x[..., :4], x[..., 4:])
    assert not writable(q, q)
    assert not writable(x[..., :5], x[..., 3:])
    assert not writable(x[0, 0, 0, 0].expand(3, 8))
    assert not writable(torch.zeros(10).as_strided((4, 4), (2, 1)))


def test_one_tensor_given_twice_is_turned_once() -> None:
    lowered, x = pe.lower(pe.Rotary(8), 5), normal(1, 2, 5, 8)
    expected = pe.rotate(x, x, lowered)[0]
    pe.rotate(x, x, lowered, inplace=True)
    torch.testing.assert_close(x, expected)


def test_whatever_does_not_fit_is_turned_by_pytorch(kernel_calls: list[int]) -> None:
    cos, sin = tables(5, 4, torch.float32)
    strange = normal(1, 2, 8, 5).mT
    half = normal(1, 2, 5, 8).half()
    for x in (strange, half):
        (found,) = turning.turned((x,), (cos,), (sin,), "half")
        assert torch.equal(found, rotate_pairs(x, cos, sin, "half").to(x.dtype))
        x = x.clone(memory_format=torch.preserve_format)
        turning.turned_((x,), (cos,), (sin,), "half")
        assert torch.equal(x, found)
    assert kernel_calls == []


# torch's forward mode compiles its own rules by what it deprecates itself.
@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
def test_transforms_see_through_it() -> None:
    cos, sin = tables(5, 4, torch.float32)
    x = normal(3, 1, 2, 5, 8)

    def run(x: Tensor) -> Tensor:
        return turning.turned((x,), (cos,), (sin,), "half")[0]

    torch.testing.assert_close(torch.func.vmap(run)(x)[1], run(x[1]))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x[0], x[1])
        tangent = torch.autograd.forward_ad.unpack_dual(run(dual)).tangent
    torch.testing.assert_close(tangent, run(x[1]))


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
    assert nodes == ["posenc.turn_.default" if inplace else "posenc.turn.default"]
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
def test_an_exported_program_holds_one_node_and_any_length() -> None:
    class Turn(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rope = pe.Rotary(8)

        def forward(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
            return pe.rotate(q, k, self.rope)

    length = torch.export.Dim("length", min=2, max=64)
    given = normal(1, 4, 5, 8), normal(1, 2, 5, 8)
    program = torch.export.export(Turn(), given, dynamic_shapes=({2: length}, {2: length}))
    targets = [str(node.target) for node in program.graph.nodes]
    assert targets.count("posenc.turn.default") == 1
    other = normal(1, 4, 9, 8), normal(1, 2, 9, 8)
    torch.testing.assert_close(program.module()(*other), Turn()(*other))


def test_threads_of_python_may_turn_at_once() -> None:
    lowered = pe.lower(pe.Rotary(64), 256)
    q, k = normal(2, 8, 256, 64), normal(2, 8, 256, 64)
    expected, found = pe.rotate(q, k, lowered), {}

    def run(name: int) -> None:
        torch.set_num_threads(2)
        for _ in range(5):
            found[name] = pe.rotate(q, k, lowered)

    threads = [threading.Thread(target=run, args=(name,)) for name in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in range(3):
        assert all(torch.equal(x, y) for x, y in zip(found[name], expected, strict=True))


FORK = """
import os, torch, posenc as pe
torch.set_num_threads(2)
lowered = pe.lower(pe.Rotary(64), 256)
q, k = torch.ones(2, 2, 8, 256, 64).unbind()
q, k = q.clone(), k.clone()
expected = pe.rotate(q, k, lowered)
child = os.fork()
if child == 0:
    found = pe.rotate(q, k, lowered)
    # torch's own threads do not survive either.
    torch.set_num_threads(1)
    os._exit(0 if torch.equal(found[0], expected[0]) else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
WITHOUT = """
import torch, posenc as pe
from posenc.native.library import LIBRARY
torch.manual_seed(0)
q, k = torch.randn(2, 1, 2, 5, 8).unbind()
turned = pe.rotate(q, k, pe.Rotary(8))
print(LIBRARY if isinstance(LIBRARY, str) else "kernels")
print(turned[0].double().norm().item(), turned[1][0, 0, 3, 2].item())
"""


def printed(code: str, **environment: str) -> list[str]:
    """What a process of its own prints."""
    root = str(Path(pe.__file__).parents[1])
    given = {**os.environ, "PYTHONPATH": root, **environment}
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, env=given, capture_output=True, text=True, check=True)
    return ended.stdout.splitlines()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_does_not_wait_for_its_parents_threads() -> None:
    assert printed(FORK) == ["0"]


def test_posenc_runs_without_the_kernels() -> None:
    without, with_them = printed(WITHOUT, POSENC_NATIVE="0"), printed(WITHOUT)
    assert without[0] == "POSENC_NATIVE=0 turns the C kernels off"
    assert with_them[0] == "kernels"
    found = [[float(x) for x in lines[1].split()] for lines in (without, with_them)]
    assert found[0] == pytest.approx(found[1], rel=1e-6)


def test_it_says_why_there_are_no_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "a C compiler was missing or failed" in load(tmp_path / "none.so")
    broken = tmp_path / "broken.so"
    broken.write_text("no library")
    assert "do not load" in load(broken)
    monkeypatch.setattr("posenc.native.library.INTERFACE", INTERFACE + 1)
    assert f"but this posenc calls {INTERFACE + 1}: install posenc again" in load()
