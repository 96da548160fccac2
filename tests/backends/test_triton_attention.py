"""Triton's attention against the reference: outputs and gradients, positions, and what it refuses.

Tiles are small here, so that short sequences have several.
"""

import numpy as np
import pytest
import torch
from torch import Tensor

from posenc import Positions, Tokens, UnsupportedError, attend
from posenc import terms as t
from tests.support.triton_ready import DEVICE, EXACT, MARKS, READY, close, draw

pytestmark = [*MARKS, pytest.mark.usefixtures("small_tiles")]

if READY:
    from posenc.triton import decoding, launches
    from posenc.triton.kernel_args import Inputs, KernelArgs
    from posenc.triton.tile_lists import tile_kinds


def both(encoding, sizes: tuple[int, ...], leaves: tuple[Tensor, ...] = (), dtype=EXACT, **call):
    """Compare triton with the reference in float64: outputs, and gradients of q, k, v, leaves."""
    batch, heads, groups, q_len, k_len, dim, value_dim = sizes
    q = draw(batch, heads, q_len, dim, dtype=dtype).requires_grad_()
    k = draw(batch, groups, k_len, dim, dtype=dtype).requires_grad_()
    v = draw(batch, groups, k_len, value_dim, dtype=dtype).requires_grad_()
    results = []
    wide = q.double(), k.double(), v.double()
    for name, inputs in (("triton", (q, k, v)), ("reference", wide)):
        out = attend(*inputs, encoding, **call, backend=name)
        grads = torch.autograd.grad(out.double().sin().sum(), (q, k, v, *leaves))
        results.append((out, *grads))
    for actual, expected in zip(*results, strict=True):
        close(actual, expected, dtype)


@pytest.mark.parametrize("causal", [True, False])
def test_a_table_and_its_gradient(causal: bool) -> None:
    """Near and far tiles on both sides, fewer queries than keys, a row that heads share."""
    values = draw(2, 9).requires_grad_()
    table = t.DistanceTable(values, 5, saturates=True)
    both(table, (1, 2, 1, 37, 53, 10, 6), (values,), causal=causal)


@pytest.mark.parametrize("heads", [1, 2])
def test_a_sink_beside_slopes_and_a_table_that_learns(heads: int) -> None:
    """Of whose row 0 the gradient is what the others and the sink leave to it."""
    sink, values = draw(heads).requires_grad_(), draw(2, 9).requires_grad_()
    table = t.DistanceTable(values, 5, saturates=True)
    terms = [t.SinkLogit(sink), table, t.Slope(draw(2).abs()), t.Mask(t.Window(30))]
    both(terms, (1, 2, 1, 37, 53, 10, 6), (sink, values), causal=True)


class AsLaunched:
    """A kernel that gets the numbers that a GPU would: of 32 bits."""

    def __init__(self, kernel) -> None:
        self.kernel = kernel

    def __getitem__(self, grid: tuple[int, ...]):
        def launch(*args, **settings):
            told = [float(np.float32(x)) if isinstance(x, float) else x for x in args]
            return self.kernel[grid](*told, **settings)

        return launch


@pytest.mark.parametrize("q_len", [1, 20])
def test_float64_keeps_its_scale(q_len: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, names in (
        (launches, ["forward_kernel", "query_kernel", "key_kernel"]),
        (decoding, ["decode_kernel"]),
    ):
        for name in names:
            monkeypatch.setattr(module, name, AsLaunched(getattr(module, name)))
    values, sizes = draw(2, 6).requires_grad_(), (1, 2, 1, q_len, 20, 16, 8)
    both(t.DistanceTable(values, 4, saturates=True), sizes, (values,), causal=True, scale=0.3)


@pytest.mark.parametrize("zero", [0, 1, 7])
def test_a_table_of_one_side_or_one_row(zero: int) -> None:
    values = draw(1, 8 if zero else 1).requires_grad_()
    table = t.DistanceTable(values, zero, inside=True, saturates=True)
    both(table, (2, 2, 2, 19, 19, 16, 16), (values,), causal=False)


def test_two_tables_and_slopes_that_learn_are_one_table() -> None:
    first, second, past = draw(1, 5).requires_grad_(), draw(2, 8).requires_grad_(), draw(2)
    past.requires_grad_()
    parts = [
        t.DistanceTable(first, 1, saturates=True),
        t.DistanceTable(second, 6, saturates=True),
        t.Slope(past, inside=True),
    ]
    both(parts, (1, 2, 1, 18, 18, 8, 8), (first, second, past), causal=False)


@pytest.mark.parametrize("causal", [True, False])
def test_slopes(causal: bool) -> None:
    both(t.Slope(draw(2).abs(), draw(2)), (1, 2, 2, 20, 33, 5, 7), causal=causal)


@pytest.mark.parametrize("length", [1, 17])
def test_one_token_and_one_more_than_a_tile(length: int) -> None:
    both(None, (2, 4, 2, length, length, 40, 40), causal=True)


def test_the_log_of_the_sum_of_one_query_tells_its_gradient() -> None:
    both(t.Slope(draw(4).abs()), (1, 4, 2, 1, 100, 8, 8), causal=True)
    values = draw(4, 9).requires_grad_()
    table = t.DistanceTable(values, 8, saturates=True)
    both(table, (1, 4, 2, 1, 520, 8, 8), (values,), causal=True)


def test_windows_sinks_and_prefixes_skip_and_hide() -> None:
    slope = t.Slope(draw(2).abs())
    window = [slope, t.Mask(t.Window(6)), t.Mask(t.Sink(2))]
    both(window, (1, 2, 1, 50, 60, 8, 8), causal=True)
    both([t.Mask(t.Window(5))], (1, 2, 1, 40, 40, 8, 8), causal=False)
    both([slope, t.Mask(t.Prefix(20))], (1, 2, 1, 35, 35, 8, 8), causal=True)


def test_counts_that_leave_32_bits_hide_what_the_longest_would() -> None:
    """Plain positions are counted in 32 bits, where two such counts have no sum."""
    slope, sizes = t.Slope(draw(2).abs()), (1, 2, 1, 35, 40, 8, 8)
    for count in (2**31 - 1, 2**31, 2**62):
        for causal in (True, False):
            both([slope, t.Mask(t.Window(count))], sizes, causal=causal)
        both([slope, t.Mask(t.Prefix(count))], sizes, causal=True)
        both([slope, t.Mask(t.Window(5)), t.Mask(t.Sink(count))], sizes, causal=True)


def test_offsets_that_jump_and_that_end_a_row() -> None:
    total = draw(1, 2, 40).double().cumsum(-1)
    total[..., 20:] -= 1e6
    own = total.clone()
    own[..., 25] = -torch.inf
    both(t.Offset(own, -total), (1, 2, 1, 40, 40, 8, 8), causal=True, dtype=torch.float32)


def test_offsets_of_padding_that_are_no_number_spoil_no_other_row() -> None:
    mask, total = torch.arange(40, device=DEVICE)[None] >= 5, draw(1, 2, 40).double()
    offset = t.Offset(*(x.masked_fill(~mask, torch.nan) for x in (total, -total)))
    where = Positions.build(attention_mask=mask, causal=True)
    q, k, v = (draw(1, heads, 40, 8, dtype=torch.float32) for heads in (2, 1, 1))
    outs = [
        attend(q, k, v, offset, positions=where, backend=name)[:, :, 5:]
        for name in ("triton", "reference")
    ]
    close(*outs, torch.float32)


def test_packed_padded_and_explicit_positions() -> None:
    values = draw(1, 7).requires_grad_()
    documents = torch.tensor([0] * 3 + [1] * 18 + [2] * 19, device=DEVICE)
    packed = Positions.build(documents=documents, causal=True)
    table = t.DistanceTable(values, 5, saturates=True)
    both(table, (1, 2, 1, 40, 40, 8, 8), (values,), positions=packed)
    mask = torch.ones(2, 24, dtype=torch.bool, device=DEVICE)
    mask[0, :7], mask[1, 20:] = False, False
    padded = Positions.build(9, attention_mask=mask, causal=True)
    fixed = [t.DistanceTable(values.detach(), 5, saturates=True), t.Mask(t.Window(4))]
    both(fixed, (2, 2, 1, 9, 24, 8, 8), positions=padded)
    ids = torch.arange(24, device=DEVICE) * 7 % 24
    both(fixed, (2, 2, 1, 24, 24, 8, 8), positions=Positions.build(ids=ids, causal=False))
    with pytest.raises(UnsupportedError, match="summed along diagonals"):
        both(table, (2, 2, 1, 24, 24, 8, 8), positions=Positions.build(ids=ids))


@pytest.mark.parametrize("far", [2**31, 2**32, -(2**60)])
def test_orders_and_windows_beyond_32_bits(far: int) -> None:
    """Which in 32 bits would be near, or the first of their sequence."""
    order = torch.arange(24, device=DEVICE)
    order = torch.where(order < 12, order, order + far)
    positions = Positions(Tokens(order, order=order), Tokens(order, order=order), causal=True)
    windows = [t.Window(2**33)], [t.Window(5), t.Sink(3)], [t.Window(2**62)]
    for rules in (*windows, [t.Prefix(3)], [t.Chunk(7)]):
        both([t.Mask(rule) for rule in rules], (1, 2, 1, 24, 24, 8, 8), positions=positions)


def test_tiles_of_other_documents_are_skipped() -> None:
    documents = torch.arange(64) // 16
    order = torch.arange(64) % 16
    places = [x[None] for x in (order, order, order, order, documents, documents)]
    places.append(torch.ones(1, 64, dtype=torch.bool))
    q = draw(1, 1, 64, 8).cpu()
    x = Inputs(q, q, q, None, None, None, places, 0, 1.0, True, 0, 0, 0, plain=False)
    kinds, _ = tile_kinds(KernelArgs(x), 16, 16)
    masked, hidden = 2, 3
    assert torch.equal(kinds[0], torch.full((4, 4), hidden).fill_diagonal_(masked))


def test_a_row_that_sees_nothing_is_zero_in_its_gradient_too() -> None:
    order, documents = torch.arange(20, device=DEVICE), torch.zeros(20, device=DEVICE).long()
    alone = documents.index_fill(0, order[3:18], 9)
    positions = Positions(Tokens(order, document=alone), Tokens(order, document=documents))
    both(None, (1, 2, 1, 20, 20, 8, 8), positions=positions)
    q, k = draw(1, 1, 20, 8), draw(1, 1, 20, 8)
    assert (attend(q, k, k, positions=positions, backend="triton")[:, :, 3:18] == 0).all()


@pytest.mark.parametrize("extreme", [-1e4, 1e4])
def test_very_negative_and_very_large_biases(extreme: float) -> None:
    values = torch.tensor([[extreme, 0.0, extreme, 1.0]], dtype=EXACT, device=DEVICE)
    both(t.DistanceTable(values, 3, saturates=True), (1, 1, 1, 33, 33, 8, 8), causal=True)
    steep = t.Slope(torch.full((1,), abs(extreme), device=DEVICE))
    both(steep, (1, 1, 1, 33, 33, 8, 8), causal=True)


@pytest.mark.parametrize("scale", [-8.0, -0.7, 0.0])
@pytest.mark.parametrize("encoding", [None, t.DistanceTable(torch.ones(1, 5), 2, saturates=True)])
def test_any_scale(encoding: t.DistanceTable | None, scale: float) -> None:
    """A negative one makes the least product the greatest score, which weights count from."""
    sizes = 1, 2, 1, 37, 53, 10, 6
    # In float64 the scale is always positive, for q takes it.
    both(encoding, sizes, causal=False, scale=scale, dtype=torch.float32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_low_precision(dtype: torch.dtype) -> None:
    values = draw(2, 6, dtype=dtype).requires_grad_()
    table = t.DistanceTable(values, 4, saturates=True)
    both(table, (1, 2, 1, 20, 20, 16, 16), (values,), dtype=dtype, causal=True)


def test_it_composes_with_rotation_for_each_head_and_a_scale() -> None:
    angle = draw(1, 2, 18, 4, dtype=torch.float64)
    parts = [t.Rotate(angle, angle, "half"), t.Scale(draw(1, 1, 18).abs()), t.Slope(draw(2).abs())]
    both(parts, (1, 2, 1, 18, 18, 8, 6), causal=True)


def test_two_runs_give_the_same_bits() -> None:
    values = draw(2, 9).requires_grad_()
    q, k = (draw(1, 2, 40, 8, seed=s).requires_grad_() for s in (1, 2))
    runs = []
    for _ in range(2):
        out = attend(q, k, k, t.DistanceTable(values, 5, saturates=True), backend="triton")
        runs.append((out, *torch.autograd.grad(out.sum(), (q, k, values))))
    for one, two in zip(*runs, strict=True):
        assert torch.equal(one, two)


def test_memory_that_was_not_cleared_is_never_read() -> None:
    """Every output is written whole: with NaN in what torch.empty gives, nothing changes."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        values = draw(1, 5).requires_grad_()
        both(t.DistanceTable(values, 2, saturates=True), (1, 2, 1, 21, 35, 10, 6), (values,))
    finally:
        torch.use_deterministic_algorithms(False)


def test_what_it_refuses_and_why() -> None:
    q = draw(1, 2, 4, 8)
    for part, why in (
        (t.DenseBias(draw(1, 2, 4, 4)), "DenseBias"),
        ([t.Slope(draw(2), inside=True), t.Scale(draw(1, 1, 4))], "inside a scale"),
    ):
        with pytest.raises(UnsupportedError, match=why):
            attend(q, q, q, part, causal=True, backend="triton")
    with pytest.raises(UnsupportedError, match="dropout"):
        attend(q, q, q, causal=True, dropout=0.5, backend="triton")
    wide = draw(1, 1, 2, 300)
    with pytest.raises(UnsupportedError, match="wider than 256"):
        attend(wide, wide, wide, backend="triton")


@pytest.mark.parametrize("arrangement", ["plain", "packed"])
@pytest.mark.parametrize("kind", ["none", "table", "slopes", "slopes that learn", "sink"])
def test_the_log_of_the_sum_learns(kind: str, arrangement: str) -> None:
    bias = draw(4, 9) if kind == "table" else draw(4).abs()
    bias.requires_grad_(kind != "slopes")
    terms = {"none": [], "table": [t.DistanceTable(bias, 6, saturates=True)]}
    terms["sink"] = [t.SinkLogit(bias), t.Slope(draw(4).abs())]
    encoding = terms.get(kind, [t.Slope(bias)])
    documents = torch.arange(40)[None] // 17
    packed = Positions.build(40, documents=documents, causal=True)
    call = {"positions": packed} if arrangement == "packed" else {"causal": True}
    leaves = [draw(2, heads, 40, 16, seed=heads).requires_grad_() for heads in (4, 2, 2)]
    learned = [*leaves, bias] if encoding and bias.requires_grad else leaves
    results = []
    for name in ("triton", "reference"):
        out, lse = attend(*leaves, encoding, **call, backend=name, return_lse=True)
        grads = torch.autograd.grad(out.sin().sum() + lse.cos().sum(), learned)
        results.append((out, lse, *grads))
    for actual, expected in zip(*results, strict=True):
        close(actual, expected)
