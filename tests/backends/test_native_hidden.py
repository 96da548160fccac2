"""What nobody sees does not matter to the C kernels, not even NaN; who sees whom at the edges."""

import sys

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import Positions, attend
from posenc import terms as t
from posenc.encoding import Encoding
from posenc.native.library import LIBRARY
from posenc.positions.tokens import Tokens
from tests.support.oracles import drawing

pytestmark = pytest.mark.skipif(isinstance(LIBRARY, str), reason=str(LIBRARY))

HEADS, LENGTH = 2, 150
Members = dict[str, tuple[object, bool]]


def members() -> Members:
    """By name each kind of term, learned or not, and masks that cut tiles; whether it is causal."""
    gates = pe.ForgetGate(6, HEADS)
    return {
        "nothing": (None, False),
        "nothing, causal": (None, True),
        "rotary": (pe.Rotary(8), True),
        "alibi": (pe.ALiBi(HEADS, learned=True), False),
        "t5": (pe.T5Bias(HEADS), True),
        "shaw": (pe.Shaw(8, clip=4, future=4), False),
        "shaw, causal": (pe.Shaw(8), True),
        "deberta": (pe.DeBERTa(8, heads=HEADS, head_dim=8, projections="own"), False),
        "deberta, causal": (pe.DeBERTa(8, heads=HEADS, head_dim=8, projections="own"), True),
        "transformer xl": (pe.TransformerXL(8, heads=HEADS, head_dim=8), True),
        "gates": (gates, True),
        "window alone": (pe.SlidingWindow(10), True),
        "window": ([pe.ALiBi(HEADS), pe.SlidingWindow(10)], True),
        "window both ways": ([pe.Shaw(8, future=16), pe.SlidingWindow(40)], False),
        "gates, vectors and sinks": ([gates, pe.Shaw(8), pe.SlidingWindow(70), pe.Sinks(3)], True),
    }


MEMBERS = members()


def batch(length: int = LENGTH) -> tuple[list[Tensor], Tensor, Tensor]:
    """q, k and v of two rows; the layer's input; gradients of the output."""
    draw = drawing(1)
    q, k, v = (draw(2, HEADS, length, 8).float() for _ in range(3))
    return [q, k, v], draw(2, length, 6).float(), draw(2, HEADS, length, 8).float()


def run(
    member: object, inputs: list[Tensor], x: Tensor, grad: Tensor, positions: Positions
) -> list[Tensor]:
    """The output; gradients of q, k, v, the layer's input, and of what the member learns."""
    *leaves, x = (i.detach().clone().requires_grad_() for i in (*inputs, x))
    parts = member if isinstance(member, list) else [member]
    learned = [p for part in parts if isinstance(part, Encoding) for p in part.parameters()]
    out = attend(*leaves, member, positions=positions, context=pe.Context(x=x), backend="native")
    got = torch.autograd.grad(out, [*leaves, x, *learned], grad, materialize_grads=True)
    return [out.detach(), *got]


@pytest.mark.parametrize("hurt", [torch.nan, torch.inf])
@pytest.mark.parametrize("name", MEMBERS)
def test_rows_of_the_batch_do_not_touch_each_other(name: str, hurt: float) -> None:
    member, causal = MEMBERS[name]
    inputs, x, grad = batch()
    positions = Positions.build(LENGTH, causal=causal)
    expected = run(member, inputs, x, grad, positions)
    for which in range(3):
        broken = [i.clone() for i in inputs]
        broken[which][0] = hurt
        got = run(member, broken, x, grad, positions)
        for actual, wanted in zip(got[:5], expected[:5], strict=True):
            assert torch.equal(actual[1], wanted[1]), ["q", "k", "v"][which]
    x = x.clone()
    x[0] = hurt
    got = run(member, inputs, x, grad, positions)
    for actual, wanted in zip(got[:5], expected[:5], strict=True):
        assert torch.equal(actual[1], wanted[1]), "x"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("start", [100, 129])
@pytest.mark.parametrize("name", [name for name, (_, causal) in MEMBERS.items() if causal])
def test_the_future_does_not_matter(name: str, start: int, dtype: torch.dtype) -> None:
    """NaN from a token on changes nothing before it, nor gradients of a loss that ends there."""
    member, _ = MEMBERS[name]
    inputs, x, grad = batch()
    inputs, grad = [i.to(dtype) for i in inputs], grad.to(dtype)
    grad[:, :, start:] = 0
    positions = Positions.build(LENGTH, causal=True)
    expected = run(member, inputs, x, grad, positions)
    broken = [i.clone() for i in inputs]
    for i in (*broken, x := x.clone()):
        i[..., start:, :] = torch.nan
    got = run(member, broken, x, grad, positions)
    for actual, wanted in zip(got[:4], expected[:4], strict=True):
        assert torch.allclose(actual[:, :, :start], wanted[:, :, :start], rtol=1e-5, atol=1e-5)
        assert wanted is expected[0] or (actual[:, :, start:] == 0).all()
    for actual, wanted in zip(got[5:], expected[5:], strict=True):
        if name != "gates, vectors and sinks" and name != "gates":
            assert torch.allclose(actual, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("name", [name for name in MEMBERS if "gates" not in name])
def test_padding_does_not_matter(name: str, left: bool, dtype: torch.dtype) -> None:
    """Gates that are NaN make all later ones NaN before a kernel reads them: they are left out."""
    member, causal = MEMBERS[name]
    inputs, x, grad = batch()
    inputs, grad = [i.to(dtype) for i in inputs], grad.to(dtype)
    valid = torch.ones(2, LENGTH, dtype=torch.bool)
    valid[0, :37] = not left
    valid[1, 91:] = left
    grad = grad.masked_fill(~valid[:, None, :, None], 0)
    positions = Positions.build(attention_mask=valid, causal=causal)
    expected = run(member, inputs, x, grad, positions)
    hidden = ~valid[:, None, :, None]
    got = run(member, [i.masked_fill(hidden, torch.nan) for i in inputs], x, grad, positions)
    for actual, wanted in zip(got[:4], expected[:4], strict=True):
        zeros = [i.masked_fill(hidden, 0) for i in (actual, wanted)]
        assert torch.allclose(*zeros, rtol=1e-5, atol=1e-5)
    for actual, wanted in zip(got[4:], expected[4:], strict=True):
        assert torch.allclose(actual, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_vectors_of_distances_that_nobody_sees_may_be_nan(dtype: torch.dtype) -> None:
    """Rows then stand alone, with their values, also where no gradient is asked for."""
    draw = drawing(3)
    q, k, v = (draw(1, HEADS, 99, 40).to(dtype) for _ in range(3))
    table = draw(1, 197, 40).to(dtype)
    table[:, 99:-1] = torch.nan
    out = attend(q, k, v, t.ValueTable(table, 98), causal=True, backend="native")
    wide = (x.double() for x in (q, k, v))
    seen = t.ValueTable(table.double().nan_to_num(), 98)
    wanted = attend(*wide, seen, causal=True, backend="reference")
    torch.testing.assert_close(
        out.double(), wanted, atol=0.03 if dtype.itemsize == 2 else 1e-5, rtol=0
    )


def like_the_reference(
    terms: object, positions: Positions | None = None, same: object = None, **call: object
) -> None:
    """The kernel gives what the equation gives, of the same terms or of `same`."""
    draw = drawing(2)
    q, k, v = (draw(1, HEADS, 100, 8).requires_grad_() for _ in range(3))
    outs = [
        attend(q, k, v, encoding, positions=positions, backend=name, **call)
        for name, encoding in (("native", terms), ("reference", same or terms))
    ]
    grads = [torch.autograd.grad(out.sin().sum(), [q, k, v]) for out in outs]
    for actual, wanted in zip([outs[0], *grads[0]], [outs[1], *grads[1]], strict=True):
        torch.testing.assert_close(actual, wanted)


@pytest.mark.parametrize("first", [-100, -37, -(2**40), 2**40])
@pytest.mark.parametrize(
    "rules", [[], [t.Window(9)], [t.Window(9), t.Sink(4)], [t.Prefix(5)]], ids=str
)
def test_orders_may_be_negative_and_far(first: int, rules: list[t.MaskRule]) -> None:
    tokens = Tokens(torch.arange(100), order=torch.arange(100) + first)
    positions = Positions(tokens, tokens, causal=True, extent=100, unit_step=True)
    like_the_reference([pe.ALiBi(HEADS), *(t.Mask(rule) for rule in rules)], positions)


@pytest.mark.parametrize("width", [sys.maxsize, 2**62, 2**63, 2**64, 101, 100])
def test_a_window_may_be_wider_than_anything(width: int) -> None:
    for causal in (True, False):
        alibi = pe.ALiBi(HEADS)
        like_the_reference([alibi, pe.SlidingWindow(width)], same=alibi, causal=causal)


@pytest.mark.parametrize("scale", [0.0, -1.0, -0.3])
@pytest.mark.parametrize("terms", [None, pe.ALiBi(HEADS), pe.Shaw(8)], ids=repr)
def test_a_scale_may_be_zero_or_negative(terms: object, scale: float) -> None:
    for causal in (True, False):
        like_the_reference(terms, causal=causal, scale=scale)
    rules = [t.Mask(t.Window(9)), t.Scale(scale)]
    like_the_reference([*([] if terms is None else [terms]), *rules], causal=True)
