"""Triton's attention that reads vectors by distance, against the reference: outputs and gradients.

Tiles are small here, so that short sequences have several.
"""

from typing import Any

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import Positions, UnsupportedError, attend
from posenc import terms as t
from tests.support.triton_ready import DEVICE, EXACT, MARKS, close, draw

pytestmark = [*MARKS, pytest.mark.usefixtures("small_tiles")]


def both(encoding: Any, sizes: tuple[int, ...], dtype: torch.dtype = EXACT, **call: Any) -> None:
    """Compare triton with the reference in float64: outputs, and gradients of all that learns."""
    batch, heads, groups, q_len, k_len, dim, value_dim = sizes
    shapes = (heads, q_len, dim), (groups, k_len, dim), (groups, k_len, value_dim)
    given = [draw(batch, *shape, dtype=dtype, seed=n) for n, shape in enumerate(shapes)]
    q, k, v = (x.requires_grad_() for x in given)
    results = []
    for name, inputs in (
        ("triton", (q, k, v)),
        ("reference", (q.double(), k.double(), v.double())),
    ):
        out = attend(*inputs, encoding, **call, backend=name)
        grads = torch.autograd.grad(out.double().sin().sum(), (q, k, v, *leaves(encoding)))
        results.append((out, *grads))
    for actual, expected in zip(*results, strict=True):
        close(actual, expected, dtype)


def leaves(encoding: Any) -> list[Tensor]:
    if isinstance(encoding, torch.nn.Module):
        return [*encoding.parameters()]
    fields = [field for term in encoding for field in vars(term).values()]
    return [x for x in fields if isinstance(x, Tensor) and x.requires_grad]


def of(side: str, heads: int, size: int, zero: int, width: int = 8) -> Any:
    weight = draw(heads, size, width).requires_grad_()
    if side == "v":
        return t.ValueTable(weight, zero, saturates=True)
    return t.GatherTable(weight, zero, "q" if side == "q" else "k", saturates=True)


@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("side", ["q", "k", "v"])
def test_each_side_by_itself(side: str, causal: bool, heads: int) -> None:
    """Far, near and masked tiles on both sides, fewer queries than keys, keys that heads share."""
    width = 6 if side == "v" else 10
    both([of(side, heads, 9, 5, width)], (1, 4, 2, 37, 53, 10, 6), causal=causal)


@pytest.mark.parametrize("length", [1, 15, 16, 17, 31, 32, 33, 65])
def test_all_sides_at_the_edges_of_tiles(length: int) -> None:
    """Each reaches elsewhere: what is far for one is near for another."""
    parts = [of("q", 1, 9, 4), of("k", 2, 30, 2), of("v", 1, 7, 6)]
    both(parts, (2, 2, 1, length, length, 8, 8), causal=length % 2 == 0)


@pytest.mark.parametrize("zero", [0, 1, 7])
def test_vectors_of_one_side_or_one_row(zero: int) -> None:
    size = 8 if zero else 1
    parts = [of(side, 1, size, zero) for side in ("q", "k", "v")]
    both(parts, (1, 2, 2, 19, 35, 8, 8), causal=False)


ENCODINGS = {
    "shaw": lambda: pe.Shaw(8, clip=5),
    "shaw, keys alone": lambda: pe.Shaw(8, clip=4, values=False, future=0),
    "shaw, beyond the input": lambda: pe.Shaw(8, clip=200),
    "deberta": lambda: pe.DeBERTa(16, 2, span=7, head_dim=8, projections="own"),
    "deberta, buckets": lambda: pe.DeBERTa(
        16, 2, span=24, buckets=8, head_dim=8, projections="own"
    ),
    "c2p": lambda: pe.DeBERTa(16, 2, span=7, head_dim=8, projections="own", terms=("c2p",)),
    "p2c": lambda: pe.DeBERTa(16, 2, span=7, head_dim=8, projections="own", terms=("p2c",)),
    "transformer-xl": lambda: pe.TransformerXL(16, 2, 8),
    "transformer-xl, clamped": lambda: pe.TransformerXL(16, 2, 8, clamp=6),
}


def made(name: str) -> pe.Encoding:
    torch.manual_seed(0)
    return ENCODINGS[name]().to(DEVICE, EXACT)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", ENCODINGS)
def test_encodings(name: str, causal: bool) -> None:
    both(made(name), (1, 2, 2, 41, 41, 8, 8), causal=causal)


@pytest.mark.parametrize("name", ["shaw", "deberta"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_low_precision(name: str, dtype: torch.dtype) -> None:
    both(made(name).float(), (1, 2, 1, 40, 40, 8, 8), dtype, causal=True)


def arranged(arrangement: str) -> Positions:
    tokens = torch.arange(40, device=DEVICE)
    if arrangement.startswith("packed"):
        return Positions.build(documents=tokens // 15, causal=arrangement == "packed")
    if arrangement == "placed":
        return Positions.build(ids=tokens * 7 % 40, causal=False)
    mask = torch.ones(2, 40, dtype=torch.bool, device=DEVICE)
    mask[0, :7], mask[1, 30:] = False, False
    few = 19 if arrangement == "the last of padded" else 40
    return Positions.build(few, attention_mask=mask, causal=arrangement != "padded, both ways")


@pytest.mark.parametrize("name", ["shaw", "deberta"])
@pytest.mark.parametrize(
    "arrangement",
    ["packed", "packed, both ways", "placed", "padded", "padded, both ways", "the last of padded"],
)
def test_positions(name: str, arrangement: str) -> None:
    positions = arranged(arrangement)
    both(made(name), (2, 2, 1, positions.q_len, 40, 8, 8), positions=positions)


@pytest.mark.parametrize(
    "rules",
    [
        [t.Mask(t.Window(20)), t.Mask(t.Sink(3))],
        [t.Mask(t.Window(3))],
        [t.Mask(t.Prefix(20))],
        [t.Mask(t.Chunk(9))],
    ],
)
def test_rules_beside_numbers_by_distance(rules: list[t.Mask]) -> None:
    slope, table = t.Slope(draw(2).abs()), t.DistanceTable(draw(2, 30), 20, saturates=True)
    parts = [of("q", 1, 9, 4), of("v", 1, 8, 3), *rules, slope, table]
    both(parts, (1, 2, 1, 50, 60, 8, 8), causal=True)


def test_numbers_inside_the_scale_learn_beside_vectors_of_queries() -> None:
    """Which reach elsewhere."""
    table = t.DistanceTable(draw(2, 15).requires_grad_(), 9, inside=True, saturates=True)
    scale = t.Scale(0.7)
    both([of("q", 1, 9, 4), table, scale], (1, 2, 1, 50, 60, 8, 8), causal=False)


def test_a_scale_by_query_and_values_beside_a_rotation() -> None:
    scale = t.Scale(draw(1, 1, 35).abs())
    both([of("q", 1, 9, 4), of("v", 1, 8, 3), scale], (1, 2, 1, 35, 35, 8, 8), causal=True)
    angle = draw(1, 1, 35, 4, dtype=torch.float64)
    turned = [of("v", 2, 8, 3), t.Rotate(angle, angle, "half")]
    both(turned, (1, 2, 1, 35, 35, 8, 8), causal=True)


def test_a_row_that_sees_nothing_is_zero() -> None:
    documents = torch.zeros(40, device=DEVICE).long()
    order = torch.arange(40, device=DEVICE)
    alone = documents.index_fill(0, order[3:38], 9)
    tokens = pe.Tokens(order, document=alone), pe.Tokens(order, document=documents)
    positions = Positions(*tokens)
    both(made("shaw"), (1, 2, 1, 40, 40, 8, 8), positions=positions)


@pytest.mark.parametrize("arrangement", ["plain", "padded"])
def test_the_log_of_the_sum_learns(arrangement: str) -> None:
    encoding = made("shaw")
    call = {"causal": True} if arrangement == "plain" else {"positions": arranged(arrangement)}
    q, k, v = (draw(2, heads, 40, 8, seed=heads).requires_grad_() for heads in (2, 1, 1))
    results = []
    for name in ("triton", "reference"):
        out, lse = attend(q, k, v, encoding, **call, backend=name, return_lse=True)
        seen = lse.masked_fill(lse.isinf(), 0.0)
        loss = out.sin().sum() + seen.cos().sum()
        grads = torch.autograd.grad(loss, (q, k, v, *encoding.parameters()))
        results.append((out, seen, *grads))
    for actual, expected in zip(*results, strict=True):
        close(actual, expected)


@pytest.mark.parametrize("name", ["shaw", "deberta"])
def test_two_runs_give_the_same_bits(name: str) -> None:
    encoding = made(name)
    q = draw(1, 2, 40, 8).requires_grad_()
    runs = []
    for _ in range(2):
        out = attend(q, q, q, encoding, backend="triton")
        runs.append((out, *torch.autograd.grad(out.sin().sum(), (q, *encoding.parameters()))))
    for one, two in zip(*runs, strict=True):
        assert torch.equal(one, two)


@pytest.mark.parametrize("name", ["shaw", "deberta"])
def test_memory_that_was_not_cleared_is_never_read(name: str) -> None:
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        both(made(name), (1, 2, 1, 21, 35, 8, 8), causal=True)
    finally:
        torch.use_deterministic_algorithms(False)


def test_nothing_is_computed_of_no_rows() -> None:
    encoding, q = made("shaw"), draw(0, 4, 5, 8).requires_grad_()
    out = attend(q, q, q, encoding, causal=True, backend="triton")
    assert out.shape == q.shape
    assert all((x == 0).all() for x in torch.autograd.grad(out.sum(), [*encoding.parameters()]))


def test_there_is_no_gradient_of_the_gradient() -> None:
    q = draw(1, 2, 5, 8).requires_grad_()
    out = attend(q, q, q, made("shaw"), backend="triton")
    (grad,) = torch.autograd.grad(out.sum(), q, create_graph=True)
    with pytest.raises(UnsupportedError, match="no gradient of its gradient"):
        grad.sum().backward()


def test_what_it_refuses_and_why() -> None:
    q, vectors = draw(1, 2, 40, 8), of("q", 1, 9, 4)
    learns = draw(2, 3).requires_grad_()
    twice = Positions.build(ids=torch.arange(40, device=DEVICE) // 2)
    for parts, call, why in (
        ([vectors, t.SinkLogit(draw(2))], {}, "no SinkLogit"),
        ([vectors, t.Offset(draw(1, 2, 40), draw(1, 2, 40))], {}, "no Offset"),
        ([vectors, t.DistanceTable(learns, 1, saturates=True)], {}, "no gradient of numbers"),
        ([vectors], {"positions": twice}, "a distance of its own"),
        ([vectors, pe.Rotary(8)], {}, "beside a Rotate"),
    ):
        with pytest.raises(UnsupportedError, match=why):
            attend(q, q, q, parts, **call, backend="triton")
