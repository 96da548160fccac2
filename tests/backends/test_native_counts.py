"""Counts of open gates in the C attention kernels, against the equation in float64."""

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import Positions, attend
from posenc import terms as t
from posenc.native.library import LIBRARY
from tests.backends.test_native_launch import poisoned, threads
from tests.support.native_kernels import (
    BOUNDS,
    SHAPES,
    check,
    close,
    learned,
    with_gradients,
)
from tests.support.oracles import drawing
from tests.support.term_examples import Sizes, inputs

pytestmark = pytest.mark.skipif(isinstance(LIBRARY, str), reason=str(LIBRARY))


def table(s: Sizes, steps: int, seed: int = 31, heads: int | None = None) -> t.CountTable:
    return t.CountTable(drawing(seed)(heads or s.heads, steps, s.dim) / 4)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_the_equation(shape: str, dtype: torch.dtype, causal: bool) -> None:
    check(SHAPES[shape], [table(SHAPES[shape], 9)], dtype, causal=causal)


@pytest.mark.parametrize("steps", [1, 2, 3, 16, 17, 64, 200])
def test_tables_that_end_soon_late_and_never(steps: int) -> None:
    s = Sizes(1, 4, 2, 260, 260, 16, 16)
    for heads in (1, 4):
        check(s, [table(s, steps, heads=heads)], causal=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_counts_in_float32(dtype: torch.dtype) -> None:
    """Gates are steep between steps, so small counts differ by what rounding q and k differs."""
    s = Sizes(1, 2, 2, 130, 130, 16, 16)
    tables = [t.CountTable(drawing(32)(1, 20, s.dim) / 100)]
    check(s, tables, dtype, causal=True)


def test_gates_that_are_all_open_and_all_shut() -> None:
    s = Sizes(1, 2, 2, 200, 200, 8, 8)
    q, k, v = inputs(s, drawing(33))
    terms = [table(s, 40)]
    for size in (-300.0, 300.0):
        leaves = [x.requires_grad_() for x in (torch.ones_like(q), torch.ones_like(k) * size, v)]
        leaves += learned(terms)
        close(
            *(with_gradients(name, leaves, terms, causal=True) for name in ("native", "reference"))
        )


def packed(n: int) -> Positions:
    mask = torch.ones(2, n)
    mask[0, :70], mask[1, 100:] = 0, 0
    return Positions.build(
        n,
        n,
        causal=True,
        documents=torch.arange(n) // torch.tensor([[50], [31]]),
        attention_mask=mask,
    )


@pytest.mark.parametrize(
    "rules",
    [[], [t.Window(1)], [t.Window(20), t.Sink(3)], [t.Prefix(33)], [t.Window(90), t.Sink(70)]],
    ids=str,
)
def test_only_what_is_seen_is_counted(rules: list[t.MaskRule]) -> None:
    s = Sizes(2, 4, 2, 190, 190, 12, 5)
    terms = [table(s, 12), *(t.Mask(rule) for rule in rules)]
    check(s, terms, causal=True)
    check(s, terms, positions=packed(190))


def test_keys_are_counted_by_their_place() -> None:
    """Whatever their order is, as the equation says."""
    s = Sizes(1, 2, 2, 150, 150, 12, 5)
    ids = torch.randperm(150, generator=torch.Generator().manual_seed(1))
    check(s, [table(s, 12)], positions=Positions.build(ids=ids, causal=True))


def test_beside_every_term_outside_the_scale() -> None:
    s = Sizes(2, 4, 2, 140, 200, 12, 20)
    draw = drawing(34)
    terms = [
        table(s, 12),
        t.DistanceTable(draw(s.heads, 41), 17, saturates=True),
        t.Slope(draw(s.heads).abs(), draw(s.heads).abs()),
        t.Offset(draw(s.batch, s.heads, s.q_len), draw(s.batch, s.heads, s.k_len)),
        t.ValueTable(draw(1, 33, s.value_dim), 12, saturates=True),
        t.Scale(0.7),
    ]
    check(s, terms, causal=True)
    check(s, terms, torch.float32, causal=True)
    with threads(3):
        check(s, terms, causal=True)


def test_the_table_is_read_by_queries_as_given() -> None:
    s = Sizes(1, 4, 2, 129, 129, 12, 12)
    by_query = t.Scale(drawing(35)(1, 4, 129))
    for beside in ([pe.Rotary(12)], [by_query], [pe.Rotary(12), by_query]):
        check(s, [table(s, 12), *beside], causal=True)


@pytest.mark.parametrize("keys", [2048, 8192])
@pytest.mark.parametrize("closed", [0.0, 4.0])
def test_counts_of_many_keys_keep_their_precision(keys: int, closed: float) -> None:
    """Steps that rise by one make a count visible: the score is the count."""
    q = torch.randn(1, 1, 3, 16, generator=torch.Generator().manual_seed(2)).abs()
    k = torch.randn(1, 1, keys, 16, generator=torch.Generator().manual_seed(3)) - closed
    q[..., 0], k[..., 0] = 1.0, 0.0
    # 8,192 keys count to 4,000, or to some of the 64 steps.
    steps = 64 if closed else 4096
    weight = torch.zeros(1, steps, 16)
    weight[0, :, 0] = torch.arange(steps) * (1.0 if closed else 0.01)
    v = torch.randn(1, 1, keys, 16, generator=torch.Generator().manual_seed(4))
    call = {"causal": True, "backend": "native"}
    out = attend(q, k, v, t.CountTable(weight), **call)
    wide = [x.double() for x in (q, k, v)]
    call["backend"] = "reference"
    expected = attend(*wide, t.CountTable(weight.double()), **call)
    rounded = attend(q, k, v, t.CountTable(weight), **call)
    error, own = ((x - expected).abs().max().item() for x in (out, rounded))
    assert error <= max(2 * own, 2e-6)


def test_nothing_is_read_before_it_is_written() -> None:
    with poisoned():
        for shape in ("129, d = 96", "many query heads of one key head", "one token"):
            for dtype in (torch.float64, torch.float32):
                check(SHAPES[shape], [table(SHAPES[shape], 9)], dtype, causal=True)


@pytest.mark.parametrize(("batch", "heads"), [(1, 1), (1, 3), (2, 2)])
def test_threads_share_few_heads_and_repeat_themselves(batch: int, heads: int) -> None:
    s = Sizes(batch, heads, 1, 600, 600, 16, 16)
    terms = [table(s, 30)]
    leaves = [x.float().requires_grad_() for x in inputs(s, drawing(36))] + learned(terms)
    with threads(1):
        expected = with_gradients("native", leaves, terms, causal=True)
    for count in (2, 3):
        with threads(count):
            runs = [with_gradients("native", leaves, terms, causal=True) for _ in range(2)]
        close(runs[0], expected, torch.float32)
        assert all(torch.equal(x, y) for x, y in zip(*runs, strict=True))


def nans(x: Tensor) -> Tensor:
    return x.isnan().flatten(3).any(-1)


def test_nan_stays_with_those_who_see_it() -> None:
    s = Sizes(1, 2, 2, 200, 200, 8, 8)
    q, k, v = (x.clone() for x in inputs(s, drawing(37)))
    k[:, :, 150] = torch.nan
    leaves = [x.requires_grad_() for x in (q, k, v)]
    out = attend(*leaves, table(s, 9), causal=True, backend="native")
    assert nans(out)[:, :, 150:].all()
    assert not nans(out)[:, :, :150].any()
    grads = torch.autograd.grad(out[:, :, :150].sum(), leaves)
    assert not any(grad.isnan().any() for grad in grads)


@pytest.mark.graph
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_graphs_hold_it(dtype: torch.dtype) -> None:
    s = Sizes(1, 2, 2, 70, 70, 8, 8)
    encoding = pe.CoPE(8, 12)
    torch.nn.init.normal_(encoding.weight, std=0.1)
    leaves = [x.to(dtype).requires_grad_() for x in inputs(s, drawing(38))]

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attend(q, k, v, encoding, causal=True, backend="native")

    learns = [*leaves, *encoding.parameters()]
    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    pair = [
        [x, *torch.autograd.grad(x.sin().sum(), learns)] for x in (compiled(*leaves), run(*leaves))
    ]
    for actual, expected in zip(*pair, strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=4 * BOUNDS[dtype])
