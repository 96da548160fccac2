"""The C kernel that rotates q and k, against the rotation that PyTorch computes."""

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc.native import rotary_ops
from posenc.native.aliasing import writable
from posenc.native.library import LIBRARY
from posenc.rotation import rotate_pairs
from tests.support.native_kernels import normal, tables

pytestmark = pytest.mark.skipif(isinstance(LIBRARY, str), reason=str(LIBRARY))
BOUNDS = {
    torch.float32: 1e-6,
    torch.bfloat16: 2**-7,
    torch.float64: 1e-14,
    torch.float16: 2**-10,
}
LAYOUTS = ("half", "interleaved")


@pytest.fixture
def kernel_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each call that reached the kernel."""
    calls: list[int] = []
    run = rotary_ops._run

    def counted(*call: object) -> bool:
        reached = run(*call)
        calls.extend([1] * reached)
        return reached

    monkeypatch.setattr(rotary_ops, "_run", counted)
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
        got = rotary_ops.rotated((q, k), (cos, cos), (sin, sin), *settings)
        for x, y in zip((q, k), got, strict=True):
            expected = rotate_pairs(x, cos, sin, *settings).to(dtype)
            torch.testing.assert_close(y, expected, rtol=BOUNDS[dtype], atol=BOUNDS[dtype])
            assert torch.equal(y[..., :start], x[..., :start])
            assert torch.equal(y[..., start + 2 * pairs :], x[..., start + 2 * pairs :])
        kept = q.clone(), k.clone()
        rotary_ops.rotated_(kept, (cos, cos), (sin, sin), *settings)
        assert all(torch.equal(x, y) for x, y in zip(kept, got, strict=True))
    assert len(kernel_calls) == 10


@pytest.mark.parametrize("layout", LAYOUTS)
def test_angles_may_differ_by_batch_head_and_tensor(layout: str, kernel_calls: list[int]) -> None:
    q, k = normal(2, 4, 7, 48), normal(2, 4, 9, 48)
    angles = torch.rand(2, 4, 9, 24) * 6.3
    waves = [(angles[:, :, 2:].cos(), angles[:, :, 2:].sin()), (angles.cos(), angles.sin())]
    cos, sin = zip(*waves, strict=True)
    for x, y, c, s in zip(
        (q, k), rotary_ops.rotated((q, k), cos, sin, layout), cos, sin, strict=True
    ):
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
    for run in (
        rotate_pairs,
        lambda x, c, s, layout: rotary_ops.rotated((x,), (c,), (s,), layout)[0],
    ):
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
    monkeypatch.setattr(rotary_ops, "HUGE", 1)
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
        got = [leaf.grad for leaf in leaves]
        for leaf in leaves:
            leaf.grad = None
        return got

    kept = gradient.clone()
    for got, wanted in zip(backward(True), backward(False), strict=True):
        torch.testing.assert_close(got, wanted)
    assert torch.equal(gradient, kept)
    if place == "hook":
        torch.testing.assert_close(*seen)


def test_a_gradient_without_readers_is_rotated_where_it_lies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rotary_ops, "HUGE", 1)
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


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("needs", ["q", "k"])
def test_what_needs_no_gradient_gets_none(
    needs: str, inplace: bool, kernel_calls: list[int]
) -> None:
    """A frozen buffer beside a learned tensor stays out of the graph, in every step."""
    lowered = pe.lower(pe.Rotary(8), 5)
    x = {"q": normal(1, 4, 5, 8), "k": normal(1, 2, 5, 8)}
    expected = dict(zip("qk", pe.rotate(*x.values(), lowered), strict=True))
    leaf, frozen = x[needs].clone().requires_grad_(), "k" if needs == "q" else "q"
    buffer, kept = x[frozen].clone(), x[frozen].clone()
    for _ in range(2):
        given = {needs: leaf * 1.0, frozen: buffer}
        turned = pe.rotate(given["q"], given["k"], lowered, inplace=inplace)
        got = dict(zip("qk", turned, strict=True))
        assert got[needs].requires_grad
        assert not got[frozen].requires_grad
        assert not buffer.requires_grad
        assert (got[frozen] is buffer) == inplace
        assert all(torch.equal(got[name], expected[name]) for name in "qk")
        got[needs].square().sum().backward()
        buffer.copy_(kept)
    # In place each is turned by a call of its own, and the gradient by one in any case.
    assert len(kernel_calls) == 1 + 2 * (3 if inplace else 2)
    with torch.no_grad():
        assert not any(one.requires_grad for one in pe.rotate(leaf, buffer, lowered))


def test_in_place_is_refused_where_elements_share_memory() -> None:
    q, k = normal(1, 1, 5, 8), normal(1, 4, 5, 8)
    at = pe.Positions.build(5, causal=True)
    for encoding in (pe.lower(pe.Rotary(8), at), pe.lower(pe.XPos(8), at)):
        with pytest.raises(pe.UnsupportedError, match=r"elements of q.*\(1, 4, 5, 8\).*contiguous"):
            pe.rotate(q.expand(1, 4, 5, 8), k, encoding, inplace=True)
        with pytest.raises(pe.UnsupportedError, match="elements of k"):
            pe.rotate(k, q.expand(1, 4, 5, 8), encoding, inplace=True)
    # One token or head steps nowhere.
    pe.rotate(q.expand(1, 1, 5, 8), k, pe.Rotary(8), inplace=True)


def test_in_place_writes_into_slices_of_one_projection(kernel_calls: list[int]) -> None:
    lowered = pe.lower(pe.Rotary(8), 5)
    fused = normal(2, 5, 3, 4, 8)
    q, k, v = (part.transpose(1, 2) for part in fused.unbind(2))
    expected, kept = pe.rotate(q, k, lowered), v.clone()
    got = pe.rotate(q, k, lowered, inplace=True)
    assert all(torch.equal(x, y) for x, y in zip(got, expected, strict=True))
    assert got[0] is q
    assert torch.equal(v, kept)
    assert len(kernel_calls) == 2


def test_shared_memory_is_told_from_slices() -> None:
    x = torch.zeros(2, 5, 3, 4, 8)
    q, k, _ = x.unbind(2)
    assert writable(q, k)
    assert writable(x[..., :4], x[..., 4:])
    heads = torch.zeros(2, 5, 6, 8).transpose(1, 2)
    # Four query heads beside one of keys, in either order.
    assert writable(heads[:, :4], heads[:, 4:5])
    assert writable(heads[:, 4:5], heads[:, :4])
    assert not writable(heads[:, :4], heads[:, 3:])
    assert not writable(q, q)
    assert not writable(x[..., :5], x[..., 3:])
    assert not writable(x[0, 0, 0, 0].expand(3, 8))
    assert not writable(torch.zeros(10).as_strided((4, 4), (2, 1)))


def test_one_tensor_given_twice_is_rotated_once() -> None:
    lowered, x = pe.lower(pe.Rotary(8), 5), normal(1, 2, 5, 8)
    expected = pe.rotate(x, x, lowered)[0]
    pe.rotate(x, x, lowered, inplace=True)
    torch.testing.assert_close(x, expected)


def test_whatever_does_not_fit_is_rotated_by_pytorch(kernel_calls: list[int]) -> None:
    cos, sin = tables(5, 4, torch.float32)
    strange = normal(1, 2, 8, 5).mT
    plain = normal(1, 2, 5, 8)
    rounded = [wave.bfloat16() for wave in (cos, sin)]
    for x, c, s in ((strange, cos, sin), (plain, *rounded)):
        (got,) = rotary_ops.rotated((x,), (c,), (s,), "half")
        assert torch.equal(got, rotate_pairs(x, c, s, "half").to(x.dtype))
        x = x.clone(memory_format=torch.preserve_format)
        rotary_ops.rotated_((x,), (c,), (s,), "half")
        assert torch.equal(x, got)
    assert kernel_calls == []


# torch's forward mode compiles its own rules by what it deprecates itself.
@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
def test_transforms_see_through_it() -> None:
    cos, sin = tables(5, 4, torch.float32)
    x = normal(3, 1, 2, 5, 8)

    def run(x: Tensor) -> Tensor:
        return rotary_ops.rotated((x,), (cos,), (sin,), "half")[0]

    torch.testing.assert_close(torch.func.vmap(run)(x)[1], run(x[1]))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x[0], x[1])
        tangent = torch.autograd.forward_ad.unpack_dual(run(dual)).tangent
    torch.testing.assert_close(tangent, run(x[1]))
