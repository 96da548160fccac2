"""Triton's kernels: on a GPU as they are, else in the interpreter, both against the reference.

Without a GPU they need TRITON_INTERPRET=1 before Triton is imported: `make test` runs the marker
`triton` on its own for that. Tiles are small here, so that short sequences have several.
"""

import os
from importlib.util import find_spec

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import (
    Positions,
    ShapeError,
    Tokens,
    UnsupportedError,
    attend,
    dispatch_rotation,
    rotation,
)
from posenc import terms as t

GPU = torch.cuda.is_available()
READY = find_spec("triton") is not None and (GPU or os.environ.get("TRITON_INTERPRET") == "1")
DEVICE = "cuda" if GPU else "cpu"
# Products of float64 are no part of every GPU's matrix units.
EXACT = torch.float32 if GPU else torch.float64
HOW = "needs Triton, and a GPU or TRITON_INTERPRET=1 (pip install 'posenc[triton]')"
pytestmark = [pytest.mark.triton, pytest.mark.skipif(not READY, reason=HOW)]

if READY:
    from posenc.triton import attention, decoding, kernel_args, rotary
    from posenc.triton.kernel_args import Rules, tile_map


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_args, "blocks_for", lambda *_: (16, 16, 4, 1))


def draw(*shape: int, dtype: torch.dtype = EXACT, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(DEVICE, dtype)


def close(actual: Tensor, expected: Tensor, dtype: torch.dtype = EXACT) -> None:
    bound = {torch.float64: 1e-11, torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
    assert actual.isfinite().all()
    expected = expected.to(actual.dtype)
    torch.testing.assert_close(actual, expected, atol=bound[dtype], rtol=bound[dtype])


# rotary


def turns(r: int, length: int, batch: int = 1, heads: int = 1) -> tuple[Tensor, Tensor]:
    angle = draw(batch, heads, length, r, dtype=torch.float64)
    dtype = torch.promote_types(EXACT, torch.float32)
    return angle.cos().to(dtype), angle.sin().to(dtype)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize(("dim", "pairs", "start"), [(10, 5, 0), (11, 3, 0), (14, 4, 5)])
def test_q_and_k_turn_in_one_launch(layout: t.Layout, dim: int, pairs: int, start: int) -> None:
    """Partial and trailing slices, strided inputs, other lengths and tables for keys; and back."""
    q = draw(2, 3, 4, dim).transpose(1, 2).requires_grad_()
    k = draw(2, 2, 7, dim).requires_grad_()
    q_turn, k_turn = turns(pairs, 3), turns(pairs, 7, batch=2, heads=2)
    got = rotary.turn(q, k, q_turn, k_turn, layout, start)
    expected = [rotation.rotate_pairs(x, *w, layout, start) for x, w in ((q, q_turn), (k, k_turn))]
    grads = [draw(*x.shape, seed=5) for x in (q, k)]
    for actual, wanted in zip(got, expected, strict=True):
        close(actual, wanted)
    assert got[0].stride() == q.stride()
    back = torch.autograd.grad(got, (q, k), grads)
    for actual, wanted in zip(back, torch.autograd.grad(expected, (q, k), grads), strict=True):
        close(actual, wanted)


def test_rotate_hands_over_what_is_on_a_gpu() -> None:
    """`rotate` asks for this where tensors are on one: q and k, or q alone beside turned keys."""
    q, k, (cos, sin) = draw(1, 2, 3, 8), draw(1, 1, 3, 8), turns(4, 3)
    both = dispatch_rotation._by_triton((q, k), (cos, cos), (sin, sin), "half", 0)
    alone = dispatch_rotation._by_triton((q,), (cos,), (sin,), "half", 0)
    close(both[0], rotation.rotate_pairs(q, cos, sin, "half"))
    close(both[1], rotation.rotate_pairs(k, cos, sin, "half"))
    assert len(alone) == 1
    assert torch.equal(alone[0], both[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_low_precision_is_rounded_once(dtype: torch.dtype) -> None:
    q, k = draw(1, 2, 5, 8, dtype=dtype), draw(1, 1, 5, 8, dtype=dtype)
    angle = 1000 * draw(1, 1, 5, 4, dtype=torch.float64)
    turn = angle.cos().float(), angle.sin().float()
    got = rotary.turn(q, k, turn, turn, "half")
    for actual, x in zip(got, (q, k), strict=True):
        assert actual is not None
        assert actual.dtype == dtype
        exact = rotation.rotate_pairs(x, *turn, "half")
        assert (actual.float() - exact).abs().max() <= exact.abs().max() * torch.finfo(dtype).eps


def test_keys_that_come_turned_stay() -> None:
    q, k = draw(1, 2, 1, 8), draw(1, 1, 9, 8)
    turned, same = rotary.turn(q, k, turns(4, 1), None, "half")
    assert same is k
    close(turned, rotation.rotate_pairs(q, *turns(4, 1), "half"))


def test_in_place_writes_there_and_refuses_what_would_break() -> None:
    q, k = draw(2, 2, 3, 8), draw(2, 1, 3, 8)
    turn = turns(3, 3)
    expected = rotary.turn(q, k, turn, turn, "interleaved", 1)
    out = rotary.turn(q, k, turn, turn, "interleaved", 1, inplace=True)
    assert out[0] is q
    assert out[1] is k
    assert torch.equal(q, expected[0])
    assert torch.equal(k, expected[1])
    with pytest.raises(UnsupportedError, match="needs a gradient"):
        rotary.turn(q.requires_grad_(), k, turn, turn, "half", inplace=True)
    with pytest.raises(UnsupportedError, match="repeats its memory"):
        rotary.turn(k.expand(2, 4, 3, 8), k, turn, turn, "half", inplace=True)


def test_angles_that_do_not_fit_are_refused(unhooked: None) -> None:
    q, turn = draw(1, 2, 3, 8), turns(4, 3)
    for wrong in (turns(5, 3), turns(4, 3, heads=3), turns(4, 2)):
        with pytest.raises(ShapeError):
            rotary.turn(q, q, turn, wrong, "half")


def test_several_heads_and_tiles_for_each_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotary, "_TILE", 16)
    monkeypatch.setattr(rotary, "_HEADS", 2)
    monkeypatch.setattr(rotary, "_MANY", 0)
    q, k, turn = draw(1, 5, 5, 8), draw(1, 1, 5, 8), turns(4, 5)
    for actual, x in zip(rotary.turn(q, k, turn, turn, "half"), (q, k), strict=True):
        assert actual is not None
        close(actual, rotation.rotate_pairs(x, *turn, "half"))


# attention


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


@pytest.mark.parametrize("splits", [1, 3])
def test_one_query_against_a_cache(splits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Heads that share keys are rows of one tile, and splits of the keys are merged."""
    monkeypatch.setattr(decoding, "_SHORTEST", 200 // splits)
    q, k, v = draw(2, 6, 1, 10), draw(2, 2, 200, 10), draw(2, 2, 200, 6)
    for parts in (
        [t.Slope(draw(6).abs()), t.Mask(t.Window(90)), t.Mask(t.Sink(1))],
        [t.DistanceTable(draw(6, 9), 8, saturates=True), t.Mask(t.Window(100))],
        [t.DistanceTable(draw(1, 9), 4, saturates=True), pe.Rotary(10)],
    ):
        got = attend(q, k, v, parts, causal=True, backend="triton")
        close(got, attend(q, k, v, parts, causal=True, backend="reference"))


def test_windows_sinks_and_prefixes_skip_and_hide() -> None:
    slope = t.Slope(draw(2).abs())
    window = [slope, t.Mask(t.Window(6)), t.Mask(t.Sink(2))]
    both(window, (1, 2, 1, 50, 60, 8, 8), causal=True)
    both([t.Mask(t.Window(5))], (1, 2, 1, 40, 40, 8, 8), causal=False)
    both([slope, t.Mask(t.Prefix(20))], (1, 2, 1, 35, 35, 8, 8), causal=True)


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


def test_tiles_of_other_documents_are_skipped() -> None:
    documents = torch.arange(64) // 16
    order = torch.arange(64) % 16
    places = [x[None] for x in (order, order, order, order, documents, documents)]
    places.append(torch.ones(1, 64, dtype=torch.bool))
    q = draw(1, 1, 64, 8).cpu()
    made = kernel_args.KernelArgs(q, q, q, None, None, None, places, 0, Rules(True, 0, 0, 0, False))
    seen, _ = tile_map(made, 16, 16)
    assert torch.equal(seen[0], torch.eye(4, dtype=torch.bool))


def test_a_row_that_sees_nothing_is_zero_in_its_gradient_too() -> None:
    at, documents = torch.arange(20, device=DEVICE), torch.zeros(20, device=DEVICE).long()
    alone = documents.index_fill(0, at[3:18], 9)
    positions = Positions(Tokens(at, document=alone), Tokens(at, document=documents))
    both(None, (1, 2, 1, 20, 20, 8, 8), positions=positions)
    q, k = draw(1, 1, 20, 8), draw(1, 1, 20, 8)
    assert (attend(q, k, k, positions=positions, backend="triton")[:, :, 3:18] == 0).all()


@pytest.mark.parametrize("extreme", [-1e4, 1e4])
def test_very_negative_and_very_large_biases(extreme: float) -> None:
    values = torch.tensor([[extreme, 0.0, extreme, 1.0]], dtype=EXACT, device=DEVICE)
    both(t.DistanceTable(values, 3, saturates=True), (1, 1, 1, 33, 33, 8, 8), causal=True)
    steep = t.Slope(torch.full((1,), abs(extreme), device=DEVICE))
    both(steep, (1, 1, 1, 33, 33, 8, 8), causal=True)


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
        (pe.Shaw(8).to(DEVICE, EXACT), "GatherTable reads more than a score"),
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


def test_compiled_and_exported_graphs_hold_one_node_each() -> None:
    values = draw(2, 6).requires_grad_()
    q, k, turn = draw(1, 2, 9, 8).requires_grad_(), draw(1, 1, 9, 8), turns(4, 9)
    rules = Rules(True, 0, 0, 0, True)

    def run(q: Tensor, k: Tensor, values: Tensor) -> Tensor:
        turned_q, turned_k = rotary.turn(q, k, turn, turn, "half")
        return attention.attend(turned_q, turned_k, k, rules, 0.3, values, 4)

    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    for one, two in zip(
        *(
            (out, *torch.autograd.grad(out.sin().sum(), (q, values)))
            for out in (compiled(q, k, values), run(q, k, values))
        ),
        strict=True,
    ):
        close(one, two)
    inputs = (q.detach(), k, values.detach())
    torch.library.opcheck(
        torch.ops.posenc.triton_turn.default,
        (q, k, *turn, *turn, False, 0, False),
        test_utils=("test_schema", "test_faketensor", "test_autograd_registration"),
    )
    torch.library.opcheck(
        torch.ops.posenc.triton_attend.default,
        (q, k, k, values, None, None, [], 4, 0.3, *rules),
        test_utils=("test_schema", "test_faketensor", "test_autograd_registration"),
    )
    with torch.no_grad():
        close(compiled(*inputs), run(*inputs))
