"""16 bits in the C kernels: every number read, every number written, in each instruction set."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import attend
from posenc.native import attention, query, rotary_ops
from posenc.native.attention_struct import LEARNED, CallStruct, Inputs
from posenc.native.library import LIBRARY, SETS, TYPES
from posenc.rotation import rotate_pairs
from posenc.terms import Layout
from tests.support.oracles import drawing

pytestmark = pytest.mark.skipif(isinstance(LIBRARY, str), reason=str(LIBRARY))


@pytest.fixture(params=SETS, autouse=True)
def instruction_set(request: pytest.FixtureRequest) -> Iterator[None]:
    """The kernels of this set, or of the best below it that the machine has."""
    assert not isinstance(LIBRARY, str)
    before, kernels = LIBRARY.instruction_set, LIBRARY.kernels
    kernels.pe_limit_instruction_set(request.param.encode())
    yield
    kernels.pe_limit_instruction_set(before.encode())


@contextmanager
def flushing(flushes: bool) -> Iterator[None]:
    """Whether the processor takes numbers below 2**-126 for zero."""
    if not torch.set_flush_denormal(flushes):
        pytest.skip("this processor flushes nothing")
    yield
    torch.set_flush_denormal(False)


def every_number() -> Tensor:
    """All 65,536 of float16."""
    return torch.arange(2**16, dtype=torch.int32).to(torch.int16).view(torch.float16)


def borders() -> Tensor:
    """float32 where its rounding to float16 changes: halfway between neighbours, and beside it.

    With it what is too small, what is too large, and what is no number.
    """
    positive = torch.arange(0x7C00, dtype=torch.int16).view(torch.float16).float()
    # After the greatest comes what would be next, from halfway to which on all is infinite.
    ends = torch.cat([positive, torch.tensor([65536.0])])
    halfway = (ends[1:] + ends[:-1]) / 2
    zero, infinity = torch.zeros(()), torch.full((), torch.inf)
    about = [x.nextafter(to) for x in (halfway, positive) for to in (zero, infinity)]
    rest = torch.tensor(
        [1e-45, 1e-40, 1.2e-38, 1e-10, 7e4, 1e5, 1e30, 3.4e38, torch.inf, torch.nan]
    )
    values = torch.cat([halfway, positive, *about, rest])
    return torch.cat([values, -values])


def in_rows(x: Tensor, width: int, fill: float = 0.0) -> Tensor:
    """x in rows of `width`, the last of them filled up."""
    return torch.nn.functional.pad(x, (0, -len(x) % width), value=fill).view(-1, width)


def same(actual: Tensor, wanted: Tensor) -> None:
    """The same bits, but for the sign of zero, which sums forget; NaN where NaN is wanted."""
    nan, bits = wanted.isnan(), [x.view(torch.int16) for x in (actual, wanted)]
    assert torch.equal(actual.isnan(), nan)
    assert torch.equal(*(x.masked_fill(nan | (x == -(2**15)), 0) for x in bits))


# Whole vectors, such that overlap, and single numbers.
WIDTHS = (64, 41, 3)


@pytest.mark.parametrize("flushes", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_attention_reads_and_writes_every_number(width: int, flushes: bool) -> None:
    """Of a single key the output is its value, and the gradient of that the output's."""
    numbers = in_rows(every_number(), width)
    k, v = torch.zeros(1, len(numbers), 1, 2, dtype=torch.float16), numbers[None, :, None]
    wanted = [name == "v" for name in LEARNED]
    for queries in (1, 2):
        inputs = Inputs(k.expand(-1, -1, queries, -1), k, v, learns=True)
        grad = torch.cat([v, torch.zeros_like(v)], dim=2)[:, :, :queries]
        with flushing(flushes):
            out, exact, peak, mass = attention.forward(*inputs)
            zeros = torch.zeros_like(exact)
            (v_grad,) = attention.backward(grad, None, zeros, peak, mass, wanted, *inputs)
            short = query.attend(k, k, v, 1.0)
        expected = numbers.float()[None, :, None].expand_as(exact)
        torch.testing.assert_close(exact, expected, rtol=0, atol=0, equal_nan=True)
        same(out[0, :, -1], numbers)
        same(v_grad[0, :, 0], numbers)
        same(short[0, :, 0], numbers)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_query_reads_every_key(width: int) -> None:
    """A sum with zeros is the number that a query picks; its weight tells what was read."""
    numbers = every_number()
    numbers = in_rows(numbers[numbers.isfinite()], width)
    q = torch.eye(width, dtype=torch.float16)[None, :, None]
    k = numbers[None, None].expand(-1, width, -1, -1)
    v = torch.tensor([[1.0], [-1.0]]).half().expand(1, width, -1, -1)
    # Beside a key of zeros, so small a score that tanh of its half tells it.
    for row in range(0, len(numbers), 97):
        pair = torch.stack([k[:, :, row], torch.zeros_like(k[:, :, row])], dim=2)
        scale = 1 / numbers[row].abs().max().clamp(min=2.0**-24).item()
        out = query.attend(q, pair, v, scale)
        wanted = (numbers[row].double() * scale / 2).tanh()
        torch.testing.assert_close(out[0, :, 0, 0].double(), wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("flushes", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_attention_rounds_to_nearest_even(width: int, flushes: bool) -> None:
    """What a table adds to values of zero comes out, rounded; it is multiplied, so finite."""
    rows = in_rows(borders().nan_to_num(0.0, 3e38, -3e38), width)
    wanted = rows.half()
    q = torch.zeros(1, len(rows), 1, 2, dtype=torch.float16)
    v = torch.zeros(1, len(rows), 1, width, dtype=torch.float16)
    inputs = Inputs(q, q, v, on_value=rows[:, None].contiguous())
    with flushing(flushes):
        out = attention.attend(inputs)
    same(out[0, :, 0], wanted)


@pytest.mark.parametrize("flushes", [False, True])
@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("pairs", WIDTHS)
def test_rotation_reads_and_rounds_every_number(pairs: int, layout: Layout, flushes: bool) -> None:
    """Angles whose sine is zero multiply by the cosine, whatever it is."""
    numbers, values = every_number(), borders()
    for x, cos in (
        (numbers, torch.ones(len(numbers))),
        (numbers, torch.full((len(numbers),), 2.0**12)),
        (numbers, torch.full((len(numbers),), 2.0**-9)),
        (torch.ones(len(values), dtype=torch.float16), values),
    ):
        firsts, waves = in_rows(x, pairs), in_rows(cos, pairs)
        wanted = (firsts.float() * waves).half()
        both = firsts, torch.zeros_like(firsts)
        joined = layout == "interleaved"
        rows = torch.stack(both, -1).flatten(-2) if joined else torch.cat(both, -1)
        cos, sin = waves[None, None], torch.zeros_like(waves)[None, None]
        with flushing(flushes):
            (out,) = rotary_ops.rotated((rows[None, None],), (cos,), (sin,), layout)
        same(out[0, 0, :, ::2] if joined else out[0, 0, :, :pairs], wanted)


def test_scores_may_leave_its_range() -> None:
    """They are float32, as in the equation; outputs and gradients are within it."""
    draw = drawing(51)
    q, k, v = (draw(1, 2, 70, 64).half() for _ in range(3))
    q, k = q * 300, k * 300
    assert (q.float() @ k.float().mT).abs().max() / 8 > 65504
    leaves = [x.requires_grad_() for x in (q, k, v)]
    wide = [x.detach().double().requires_grad_() for x in leaves]
    for encoding in (None, pe.ALiBi(2)):
        pair = [
            [
                out := attend(*x, encoding, causal=True, backend=name),
                *torch.autograd.grad(out.sum(), x),
            ]
            for x, name in ((leaves, "native"), (wide, "reference"))
        ]
        for actual, wanted in zip(*pair, strict=True):
            assert actual.dtype == torch.float16
            torch.testing.assert_close(actual.double(), wanted.double(), rtol=2e-3, atol=2e-3)


def test_the_kernel_reads_the_tensors_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are not rotated; of those that are, what the rotation gives, of their dtype."""
    q = torch.randn(1, 2, 40, 16).half().requires_grad_()
    run, read = attention.run, []

    def watched(call: CallStruct, x: Tensor, *given: int, **settings: bool) -> None:
        read.append((call.type, x.dtype, call.v))
        run(call, x, *given, **settings)

    monkeypatch.setattr(attention, "run", watched)
    for encoding in (None, pe.Rotary(16), pe.ALiBi(2)):
        attend(q, q, q, encoding, causal=True, backend="native").sum().backward()
    assert read == [(TYPES[torch.float16], torch.float16, q.data_ptr())] * 6


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("width", [8, 40, 64, 96, 128])
def test_bfloat16_is_rounded_as_pytorch_rounds_it(width: int, layout: Layout) -> None:
    """Every number, by cos and sin of all sizes: halfway cases, infinities, NaN of every kind."""
    every = torch.arange(2**16, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    # Flushed where a processor converts by itself.
    every = every.masked_fill(every.abs() < 2**-120, 0.0)
    x = in_rows(every, width)[None, None]
    # NaN of all bits, whose rounding would carry over into zero.
    nan = torch.tensor(-1, dtype=torch.int32).view(torch.float32)
    # One factor alone, which nothing is added to that could round otherwise.
    for turn, factor in ((1.0, 0.0), (1.0 + 2**-8, 0.0), (0.75 + 2**-9, 0.0), (0.0, 1.0), (nan, 0)):
        shape = 1, 1, x.shape[2], width // 2
        cos, sin = (torch.as_tensor(y).float().repeat(shape) for y in (turn, factor))
        (got,) = rotary_ops.rotated((x,), (cos,), (sin,), layout, 0)
        expected = rotate_pairs(x, cos, sin, layout, 0).bfloat16()
        same(got, expected)
