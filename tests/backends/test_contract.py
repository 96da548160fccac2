"""What holds for every backend alike, in one table of cases: odd scales, sizes, dtypes, padding."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import Positions, ShapeError, Tokens, UnsupportedError, attend
from posenc import terms as t
from posenc.backends import BACKENDS
from tests.support.able import able
from tests.support.oracles import drawing

# Triton's kernels run where `make long` sets up their interpreter.
ALL = [
    *(
        name if name != "triton" else pytest.param(name, marks=pytest.mark.triton)
        for name in BACKENDS
    ),
    "auto",
]
HEADS, DIM, LENGTH = 4, 8, 12

ENCODINGS: dict[str, Callable[[], object]] = {
    "nothing": lambda: None,
    "rotary": lambda: pe.Rotary(DIM),
    "alibi": lambda: pe.ALiBi(HEADS),
    "t5": lambda: pe.T5Bias(HEADS).double(),
    "window": lambda: pe.SlidingWindow(5),
}


def qkv(batch: int = 2, length: int = LENGTH) -> list[Tensor]:
    return [drawing(seed)(batch, HEADS, length, DIM) for seed in range(3)]


def computes(backend: str, *call: Any, **where: Any) -> bool:
    """Whether a backend takes a call of `attend`; if not, it must refuse it by name."""
    if backend == "auto" or backend in able(*call, **where):
        return True
    with pytest.raises(UnsupportedError, match=backend):
        attend(*call, **where, backend=backend)
    return False


@pytest.mark.parametrize("backend", ALL)
@pytest.mark.parametrize("scale", [-1.0, 0.0, -0.3, 2.0])
@pytest.mark.parametrize("name", ENCODINGS)
def test_any_scale(name: str, scale: float, backend: str) -> None:
    """SDPA's kernel for CPUs multiplies its causal mask by the scale."""
    call = (*qkv(), ENCODINGS[name]())
    with torch.no_grad():
        if not computes(backend, *call, causal=True):
            return
        for parts, factor in ((call[3], scale), ([call[3] or t.Scale(1.0), t.Scale(scale)], 1.0)):
            expected = attend(*call[:3], parts, causal=True, scale=factor, backend="reference")
            got = attend(*call[:3], parts, causal=True, scale=factor, backend=backend)
            torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("backend", ALL)
@pytest.mark.parametrize("name", ["alibi", "window"])
def test_negative_orders_open_nothing(name: str, backend: str) -> None:
    order = torch.arange(LENGTH) - LENGTH
    tokens = Tokens(order, order=order)
    positions = Positions(tokens, tokens, causal=True, extent=LENGTH + 1, unit_step=True)
    call = (*qkv(), ENCODINGS[name]())
    with torch.no_grad():
        if not computes(backend, *call, positions=positions):
            return
        got = attend(*call, positions=positions, backend=backend)
        torch.testing.assert_close(got, attend(*call, causal=True, backend="reference"))


@pytest.mark.parametrize("backend", ALL)
@pytest.mark.parametrize("causal", [True, False])
def test_what_is_padding_is_not_seen_nan_or_not(causal: bool, backend: str) -> None:
    mask = torch.arange(LENGTH) >= torch.tensor([[5], [0]])
    positions = Positions.build(LENGTH, attention_mask=mask, causal=causal)
    clean = qkv()
    hurt = [x.masked_fill(~mask[:, None, :, None], math.nan) for x in clean]
    both = []
    for tensors in (clean, hurt):
        learns = backend != "flex"
        leaves = [x.clone().requires_grad_(learns) for x in tensors]
        if not computes(backend, *leaves, pe.ALiBi(HEADS), positions=positions):
            return
        out = attend(*leaves, pe.ALiBi(HEADS), positions=positions, backend=backend)
        out = out.masked_fill(~mask[:, None, :, None], 0.0)
        both.append([out, *(torch.autograd.grad(out.sum(), leaves) if learns else [])])
    for got, wanted in zip(both[1], both[0], strict=True):
        torch.testing.assert_close(got, wanted)


def test_padding_that_a_cache_holds_is_not_seen() -> None:
    mask = torch.arange(LENGTH) >= torch.tensor([[5], [0]])
    outs = []
    for fill in (0.0, math.nan):
        cache = pe.Cache()
        hurt = [x.masked_fill(~mask[:, None, :, None], fill) for x in qkv()]
        positions = Positions.build(LENGTH, attention_mask=mask, causal=True)
        attend(qkv()[0], *hurt[1:], pe.ALiBi(HEADS), positions=positions, cache=cache)
        outs.append(attend(*qkv(length=1), pe.ALiBi(HEADS), causal=True, cache=cache))
    torch.testing.assert_close(outs[1], outs[0])


@pytest.mark.parametrize("backend", ALL)
def test_a_batch_of_nothing_gives_nothing(backend: str) -> None:
    call = (*qkv(batch=0), pe.ALiBi(HEADS))
    with torch.no_grad():
        if not computes(backend, *call, causal=True):
            return
        assert attend(*call, causal=True, backend=backend).shape == (0, HEADS, LENGTH, DIM)


@pytest.mark.parametrize("backend", ALL)
def test_no_head_no_dimension_and_no_token_are_said(backend: str) -> None:
    for shape in ((1, 0, 4, 8), (1, 2, 4, 0)):
        x = torch.zeros(shape)
        with pytest.raises(ShapeError, match="at least one head of one dimension"):
            attend(x, x, x, backend=backend)
    x = torch.zeros(1, 2, 0, 8)
    with pytest.raises(pe.PositionsError, match="at least one token"):
        attend(x, x, x, backend=backend)


@pytest.mark.parametrize("backend", ALL)
def test_eight_bits_are_refused_with_what_to_do(backend: str) -> None:
    x = torch.ones(1, 2, 4, 8).to(torch.float8_e4m3fn)
    with pytest.raises(ShapeError, match=r"float8_e4m3fn.*q\.to\(torch\.bfloat16\)"):
        attend(x, x, x, backend=backend)


@pytest.mark.parametrize(("step", "jump"), [(40.0, 0.0), (0.1, 1e4), (0.1, 1e6)])
@pytest.mark.parametrize("backend", ALL)
def test_offsets_are_added_before_they_are_rounded(backend: str, step: float, jump: float) -> None:
    """Of gates that close at each token, and of one that closes once for all before it."""
    total = step * torch.arange(300, dtype=torch.float64).expand(1, HEADS, -1)
    total = total.where(torch.arange(300) < 30, total + jump)
    offset = t.Offset(-total, total)
    leaves = [x.float().requires_grad_() for x in qkv(length=300)]
    learns = backend != "flex"
    with torch.set_grad_enabled(learns):
        if not computes(backend, *leaves, offset, causal=True):
            return
        results = []
        for name, inputs in ((backend, leaves), ("reference", [x.double() for x in leaves])):
            out = attend(*inputs, offset, causal=True, backend=name)
            grads = torch.autograd.grad(out.square().sum(), leaves) if learns else ()
            results.append([x.double() for x in (out, *grads)])
    for got, exact in zip(*results, strict=True):
        torch.testing.assert_close(got, exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("backend", ALL)
def test_a_query_whose_offset_is_minus_infinity_sees_nothing(backend: str) -> None:
    """And one whose offset is no number spoils no other."""
    q, k, v = (x.float() for x in qkv(length=50))
    own, of_keys = torch.zeros(2, 1, HEADS, 50, dtype=torch.float64).unbind()
    own[..., 3], own[..., 7] = -torch.inf, torch.nan
    offset = t.Offset(own, of_keys)
    with torch.no_grad():
        if not computes(backend, q, k, v, offset, causal=True):
            return
        out = attend(q, k, v, offset, causal=True, backend=backend)
        plain = attend(q, k, v, causal=True, backend="reference")
    assert (out[:, :, 3] == 0).all()
    others = [i for i in range(50) if i not in (3, 7)]
    torch.testing.assert_close(out[:, :, others], plain[:, :, others], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("encoding", [None, pe.Rotary(DIM)], ids=str)
# FlexAttention has no backward pass on CPUs.
@pytest.mark.parametrize("backend", [name for name in ALL if name != "flex"])
def test_tokens_that_share_their_numbers_get_all_gradients(
    backend: str, encoding: pe.Rotary | None
) -> None:
    """Windows of one row, of which torch lays out a likeness in another order."""
    row = drawing(4)(DIM // 2 + DIM - 1).requires_grad_()
    x = row.unfold(0, DIM, 1)[None, None]
    if not computes(backend, *[x.detach()] * 3, encoding, causal=True):
        return
    outs = [
        attend(x, x.sin(), x, encoding, causal=True, backend=name)
        for name in (backend, "reference")
    ]
    grads = [torch.autograd.grad(out.square().sum(), row)[0] for out in outs]
    torch.testing.assert_close(*outs, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(*grads, rtol=1e-9, atol=1e-9)


# torch.func.jvp scripts decompositions of its own, which newer versions of torch regret.
@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
@pytest.mark.parametrize("name", ["t5", "alibi", "rotary", "nothing"])
def test_auto_under_transforms_of_torch_func(name: str) -> None:
    encoding, (q, k, v) = ENCODINGS[name](), qkv()

    def run(q: Tensor, backend: str = "auto") -> Tensor:
        return attend(q, k, v, encoding, causal=True, backend=backend).sin().sum()

    grad = torch.func.grad(run)(q)
    torch.testing.assert_close(grad, torch.func.grad(lambda x: run(x, "reference"))(q))
    _, tangent = torch.func.jvp(run, (q,), (k,))
    torch.testing.assert_close(tangent, (grad * k).sum())


@pytest.mark.parametrize("backend", ["auto", "sdpa", "native", "blocked"])
def test_angles_learn_from_sums_that_16_bits_do_not_spoil(backend: str) -> None:
    torch.manual_seed(0)
    encoding = pe.LearnedRotary(64, HEADS)
    q, k, v, weight = (drawing(s)(1, HEADS, 512, 64).bfloat16() for s in range(4))
    if not computes(backend, q, k, v, encoding, causal=True):
        return
    grads = []
    for tensors, name in (
        ((q, k, v), backend),
        ((q.double(), k.double(), v.double()), "reference"),
    ):
        out = attend(*tensors, encoding, causal=True, backend=name)
        grads.append(
            torch.autograd.grad(out, list(encoding.parameters()), weight.to(out.dtype))[0].double()
        )
    error = (grads[0] - grads[1]).norm() / grads[1].norm()
    assert error < 0.02


@pytest.mark.parametrize("heads", [(1, 2), (2, 4), (4, 2), (4, 1), (2, 1), (4, 4)])
def test_factors_that_grow_by_key_head(heads: tuple[int, int]) -> None:
    """Angles and factors may be of all, of key heads or of query heads."""
    draw = drawing(1)
    q, k = draw(1, HEADS, 6, DIM), draw(1, 2, 6, DIM)
    angle = draw(1, 1, 6, 2)
    logs = draw(1, heads[0], 6, 2), draw(1, heads[1], 6, 2)
    term = t.Rotate(angle, angle, "half", q_log_scale=logs[0], k_log_scale=logs[1])
    wide = [x.repeat_interleave(HEADS // x.shape[1], 1) if x.shape[1] > 1 else x for x in logs]
    wide = [x.expand(-1, HEADS, -1, -1) for x in wide]
    per_query_head = t.Rotate(angle, angle, "half", q_log_scale=wide[0], k_log_scale=wide[1])
    expected = pe.scores(q, k.repeat_interleave(2, 1), per_query_head, causal=True)
    torch.testing.assert_close(pe.scores(q, k, term, causal=True), expected)
