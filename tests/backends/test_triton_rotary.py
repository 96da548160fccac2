"""Triton's rotation against `rotate_pairs`, forward and backward."""

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import ShapeError, UnsupportedError, dispatch_rotation, rotation
from posenc import terms as t
from tests.support.triton_ready import EXACT, MARKS, READY, close, draw

pytestmark = MARKS

if READY:
    from posenc.triton import rotary


def waves(r: int, length: int, batch: int = 1, heads: int = 1) -> tuple[Tensor, Tensor]:
    angle = draw(batch, heads, length, r, dtype=torch.float64)
    dtype = torch.promote_types(EXACT, torch.float32)
    return angle.cos().to(dtype), angle.sin().to(dtype)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize(("dim", "pairs", "start"), [(10, 5, 0), (11, 3, 0), (14, 4, 5)])
def test_q_and_k_rotate_in_one_launch(layout: t.Layout, dim: int, pairs: int, start: int) -> None:
    """Partial and trailing slices, strided inputs, other lengths and tables for keys; and back."""
    q = draw(2, 3, 4, dim).transpose(1, 2).requires_grad_()
    k = draw(2, 2, 7, dim).requires_grad_()
    cos, sin = zip(waves(pairs, 3), waves(pairs, 7, batch=2, heads=2), strict=True)
    got = rotary.rotated((q, k), cos, sin, layout, start)
    expected = [
        rotation.rotate_pairs(x, c, s, layout, start)
        for x, c, s in zip((q, k), cos, sin, strict=True)
    ]
    grads = [draw(*x.shape, seed=5).requires_grad_() for x in (q, k)]
    for actual, wanted in zip(got, expected, strict=True):
        close(actual, wanted)
    assert got[0].stride() == q.stride()
    back = torch.autograd.grad(got, (q, k), grads, create_graph=True)
    expected = torch.autograd.grad(expected, (q, k), grads, create_graph=True)
    # The second gradient, too.
    pairs_of = [(back, expected)]
    pairs_of.append(
        tuple(torch.autograd.grad([x.sin().sum() for x in each], grads) for each in pairs_of[0])
    )
    for actuals, wanteds in pairs_of:
        for actual, wanted in zip(actuals, wanteds, strict=True):
            close(actual, wanted)


def test_rotate_hands_over_what_is_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """`rotate` asks for this where tensors are on one: q and k, or q alone beside rotated keys."""
    monkeypatch.setattr(dispatch_rotation, "_suits_triton", lambda *_: True)
    monkeypatch.setattr(rotary, "rotated", noted := Noted(rotary.rotated))
    q, k, (cos, sin) = draw(1, 2, 3, 8), draw(1, 1, 3, 8), waves(4, 3)
    both = dispatch_rotation.rotated((q, k), (cos, cos), (sin, sin), "half")
    alone = dispatch_rotation.rotated((q,), (cos,), (sin,), "half")
    close(both[0], rotation.rotate_pairs(q, cos, sin, "half"))
    close(both[1], rotation.rotate_pairs(k, cos, sin, "half"))
    assert len(alone) == 1
    assert torch.equal(alone[0], both[0])
    assert noted.calls == 2


def test_only_gradients_that_are_needed_are_rotated_back(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, (cos, sin) = draw(1, 2, 3, 8), draw(1, 1, 3, 8), waves(4, 3)
    out = rotary.rotated((q, k.requires_grad_()), (cos, cos), (sin, sin), "half")
    monkeypatch.setattr(rotary, "_launch", noted := Noted(rotary._launch))
    (got,) = torch.autograd.grad(out[0].sum() + out[1].sin().sum(), k)
    expected = rotation.rotate_pairs(k, cos, sin, "half")
    close(got, torch.autograd.grad(expected.sin().sum(), k)[0])
    assert [len(call[0]) for call in noted.all] == [1]


def test_what_needs_no_gradient_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch_rotation, "_suits_triton", lambda *_: True)
    q, k = draw(1, 2, 3, 8), draw(1, 1, 3, 8)
    expected = pe.rotate(q, k, pe.Rotary(8))
    leaf = q.clone().requires_grad_()
    for inplace in (False, True):
        for _ in range(2):
            buffer = k.clone()
            out = pe.rotate(leaf * 1, buffer, pe.Rotary(8), inplace=inplace)
            assert out[0].requires_grad
            assert not out[1].requires_grad
            assert not buffer.requires_grad
            assert all(torch.equal(x, y) for x, y in zip(out, expected, strict=True))
            out[0].sum().backward()


class Noted:
    """A function that counts its calls."""

    def __init__(self, function) -> None:
        self.function, self.calls, self.all = function, 0, []

    def __call__(self, *call):
        self.calls += 1
        self.all.append(call)
        return self.function(*call)


def test_in_place_writes_there_and_refuses_what_would_break(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dispatch_rotation, "_suits_triton", lambda *_: True)
    q, k = draw(2, 2, 3, 8), draw(2, 1, 3, 8)
    encoding = pe.Rotary(8, layout="interleaved")
    expected = pe.rotate(q, k, encoding)
    out = pe.rotate(q, k, encoding, inplace=True)
    assert out[0] is q
    assert out[1] is k
    assert torch.equal(q, expected[0])
    assert torch.equal(k, expected[1])
    with pytest.raises(UnsupportedError, match="needs a gradient"):
        pe.rotate(q.requires_grad_(), k, encoding, inplace=True)
    with pytest.raises(UnsupportedError, match=r"elements of q.*share their memory"):
        pe.rotate(k.expand(2, 4, 3, 8), k, encoding, inplace=True)


def test_tokens_that_share_their_numbers_are_written_apart() -> None:
    x = draw(5 + 10 - 1).unfold(0, 10, 1)[None, None]
    cos, sin = waves(5, 5)
    (got,) = rotary.rotated((x,), (cos,), (sin,), "half")
    close(got, rotation.rotate_pairs(x, cos, sin, "half"))


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("learns", [True, False])
def test_in_place_nothing_is_copied(
    learns: bool, layout: t.Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of slices of one projection, with dimensions that stay, and the gradient is turned back."""
    cos, sin = zip(waves(3, 5), waves(3, 5, heads=2), strict=True)
    projected = draw(2, 5, 5, 9).requires_grad_(learns)

    def run(inplace: bool) -> tuple[Tensor, ...]:
        x = (projected * 2).transpose(1, 2)
        x = (x[:, :3], x[:, 3:]) if not learns else (x[:, :3].clone(), x[:, 3:].clone())
        turn = rotary.rotated_ if inplace else rotary.rotated
        out = tuple(turn(x, cos, sin, layout, 1))
        if inplace:
            assert all(one is two for one, two in zip(out, x, strict=True))
        grads = torch.autograd.grad(sum(y.sin().sum() for y in out), projected) if learns else ()
        return *out, *grads

    expected = run(inplace=False)
    monkeypatch.setattr(rotary, "_launch", noted := Noted(rotary._launch))
    for actual, wanted in zip(run(inplace=True), expected, strict=True):
        close(actual, wanted)
    x, written = noted.all[0][0], noted.all[0][6]
    assert all(one is two for one, two in zip(x, written, strict=True))
    x = draw(1, 2, 3, 8)
    version = x._version
    rotary.rotated_((x,), *((wave,) for wave in waves(4, 3)), "half")
    assert x._version > version


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_low_precision_is_rounded_once(dtype: torch.dtype) -> None:
    x = draw(1, 2, 5, 8, dtype=dtype), draw(1, 1, 5, 8, dtype=dtype)
    angle = 1000 * draw(1, 1, 5, 4, dtype=torch.float64)
    cos, sin = angle.cos().float(), angle.sin().float()
    for actual, one in zip(rotary.rotated(x, (cos,) * 2, (sin,) * 2, "half"), x, strict=True):
        assert actual.dtype == dtype
        exact = rotation.rotate_pairs(one, cos, sin, "half")
        assert (actual.float() - exact).abs().max() <= exact.abs().max() * torch.finfo(dtype).eps


def test_angles_that_do_not_fit_are_refused(unhooked: None) -> None:
    q, (cos, sin) = draw(1, 2, 3, 8), waves(4, 3)
    for wrong in (waves(5, 3), waves(4, 3, heads=3), waves(4, 2)):
        with pytest.raises(ShapeError):
            rotary.rotated((q, q), (cos, wrong[0]), (sin, wrong[1]), "half")


def test_several_heads_and_tiles_for_each_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotary, "_TILE", 16)
    # Two heads of what is drawn in 64 bits.
    monkeypatch.setattr(rotary, "_SHARED", 16)
    x, (cos, sin) = (draw(1, 5, 5, 8), draw(1, 1, 5, 8)), waves(4, 5)
    for actual, one in zip(rotary.rotated(x, (cos,) * 2, (sin,) * 2, "half"), x, strict=True):
        close(actual, rotation.rotate_pairs(one, cos, sin, "half"))
