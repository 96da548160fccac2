"""What attend refuses: backends, tables, heads, shapes and positions that do not fit."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import (
    Positions,
    PositionsError,
    ShapeError,
    UnsupportedError,
    attend,
)
from posenc import terms as t
from posenc.backends import BACKENDS
from tests.support.able import able
from tests.support.oracles import drawing
from tests.support.term_examples import Sizes, inputs

SQUARE = Sizes(q_len=7)
# Factors of 100 powers of e per token.
STEEP = torch.arange(7.0).double()[:, None].expand(1, 1, 7, 2) * 100
REFUSED_BY_SDPA = {
    "ValueTable": t.ValueTable(torch.zeros(1, 3, 4), 1, saturates=True),
    "CountTable": t.CountTable(torch.zeros(1, 3, 10)),
    "Zones": t.Zones(*[t.Rotate(*[torch.zeros(1, 1, 7, 2).double()] * 2, "half")] * 2, width=2),
    "grow with position": t.Rotate(
        *[torch.zeros(1, 1, 7, 2).double()] * 2, "half", 0, 1.0, -STEEP, STEEP
    ),
}


@pytest.mark.parametrize("reason", REFUSED_BY_SDPA)
def test_a_backend_asked_for_by_name_never_falls_back(reason: str) -> None:
    q, k, v = inputs(SQUARE, drawing())
    term = REFUSED_BY_SDPA[reason]
    with pytest.raises(UnsupportedError, match=rf"backend='sdpa'\) cannot compute.*{reason}"):
        attend(q, k, v, term, causal=True, backend="sdpa")
    out = attend(q, k, v, term, causal=True)
    expected = attend(q, k, v, term, causal=True, backend="reference")
    torch.testing.assert_close(out, expected)


def test_an_unknown_backend_is_named() -> None:
    q = torch.zeros(1, 1, 2, 4)
    with pytest.raises(
        UnsupportedError, match=r"backend='flash'\): known are auto, blocked, flex, native"
    ):
        attend(q, q, q, backend="flash")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("part", ["q", "k"])
def test_one_log_scale_without_the_other_is_refused(backend: str, part: str) -> None:
    """Alone it would be dropped, or overflow; no backend may do either."""
    q, k, v = inputs(SQUARE, drawing())
    angle, grown = torch.zeros(1, 1, 7, 2).double(), torch.ones(1, 1, 7, 2).double()
    term = t.Rotate(angle, angle, "half", **{f"{part}_log_scale": grown})
    with pytest.raises(UnsupportedError, match=r"log scales|grow with position|cannot compute"):
        attend(q, k, v, term, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("side", ["distance", "gather", "values"])
def test_a_table_must_hold_every_visible_distance(side: str, backend: str) -> None:
    q, k, v = inputs(SQUARE, drawing())
    draw = drawing()

    def table(past: int, future: int) -> t.Term:
        n = past + 1 + future
        return {
            "distance": t.DistanceTable(draw(6, n), past),
            "gather": t.GatherTable(draw(1, n, 10), past, "q"),
            "values": t.ValueTable(draw(1, n, 4), past),
        }[side]

    def refuses(**where: Any) -> bool:
        return backend not in able(q, k, v, replace(table(6, 6), saturates=True), **where)

    if refuses():
        pytest.skip(f"{backend} takes no such table here")
    said = r"holds distances from -5 to 6 and does not saturate, but positions reach up to 6"
    with pytest.raises(PositionsError, match=said):
        attend(q, k, v, table(5, 6), backend=backend)
    with pytest.raises(PositionsError, match="from -6 to 5"):
        attend(q, k, v, table(6, 5), backend=backend)
    # A causal mask hides the future; a prefix, or coordinates in no order, show it again.
    full = table(6, 6)
    name = "values" if side == "distance" else "weight"
    past = {name: getattr(full, name)[:, :7]}
    past_only = type(full)(**(vars(full) | past))
    torch.testing.assert_close(
        attend(q, k, v, past_only, causal=True, backend=backend),
        attend(q, k, v, full, causal=True, backend=backend),
    )
    with pytest.raises(PositionsError, match="from -6 to 0"):
        attend(q, k, v, past_only, backend=backend)
    with pytest.raises(PositionsError, match="from -6 to 0"):
        attend(q, k, v, [past_only, t.Mask(t.Prefix(3))], causal=True, backend=backend)
    unordered = Positions.build(ids=torch.tensor([3, 1, 4, 1, 5, 6, 2]), causal=True)
    for terms, positions, said in (
        (past_only, unordered, "from -6 to 0"),
        (full, torch.arange(7), "reach up to None"),
    ):
        with pytest.raises(PositionsError, match=said):
            attend(q, k, v, terms, positions=positions, backend=backend)


def test_tables_have_no_row_for_a_fraction() -> None:
    q, k, v = inputs(SQUARE, drawing())
    for encoding in (pe.T5Bias(6), pe.Shaw(10).double()):
        with pytest.raises(PositionsError, match=r"whole distance.*float64.*int64 positions"):
            attend(q, k, v, encoding, positions=torch.arange(7) / 2)


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        (pe.ALiBi(4), "Slope.past was made for 4 heads, but q has 6.*heads=6"),
        (pe.T5Bias(12), "DistanceTable.values was made for 12 heads, but q has 6"),
        (pe.Rotary(8), r"Rotary\(dim=8.*made for head_dim=8, but q has head_dim=10"),
        (pe.Rotary(16), r"Rotary\(dim=16.*head_dim=10"),
        (pe.Shaw(16), r"Shaw\(dim=16.*head_dim=10"),
    ],
    ids=repr,
)
def test_encodings_for_other_heads_say_so(encoding: pe.Encoding, said: str) -> None:
    q, k, v = inputs(SQUARE, drawing())
    with pytest.raises(ShapeError, match=said):
        attend(q, k, v, encoding)


def shaped(*shapes: tuple[int, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(torch.zeros(shape) for shape in shapes)


SHAPES = {
    "three dimensions": (
        shaped((6, 7, 10), (6, 7, 10), (6, 7, 10)),
        r"\(batch, heads, tokens, head dimension\).*q \(6, 7, 10\)",
    ),
    "integers": (
        tuple(x.long() for x in shaped(*[(1, 2, 3, 4)] * 3)),
        r"floating-point.*torch.int64",
    ),
    "batches": (
        shaped((2, 6, 7, 10), (3, 6, 7, 10), (3, 6, 7, 10)),
        r"share batch.*q \(2, 6, 7, 10\), k \(3",
    ),
    "head dimensions": (shaped((1, 2, 3, 8), (1, 2, 3, 4), (1, 2, 3, 8)), "head dimension"),
    "values": (shaped((1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 5, 4)), r"v \(1, 2, 5, 4\)"),
    "grouped heads": (
        shaped((1, 8, 3, 4), (1, 3, 3, 4), (1, 3, 3, 4)),
        "8 query heads and 3 key heads.*multiple",
    ),
}


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize("name", SHAPES)
def test_tensors_that_do_not_fit(name: str) -> None:
    tensors, said = SHAPES[name]
    with pytest.raises(ShapeError, match=said):
        attend(*tensors, pe.NoPE())


def test_positions_of_another_batch_are_not_broadcast() -> None:
    q, k, v = inputs(Sizes(batch=1, q_len=7), drawing())
    positions = Positions.build(attention_mask=torch.ones(3, 7), causal=True)
    for encoding in (pe.ALiBi(6), pe.NoPE(), pe.Rotary(10)):
        with pytest.raises(PositionsError, match=r"batch of 3, but q has shape \(1, 6, 7, 10\)"):
            attend(q, k, v, encoding, positions=positions)


@pytest.mark.parametrize("queries", [1, 4])
@pytest.mark.parametrize("run", [pe.attend, pe.scores], ids=["attend", "scores"])
@pytest.mark.usefixtures("unhooked")
def test_a_scale_that_would_get_no_gradient(run: Callable[..., Tensor], queries: int) -> None:
    q, k, v = torch.randn(1, 2, queries, 8), *torch.randn(2, 1, 2, 4, 8)
    given = (q, k, v) if run is pe.attend else (q, k)
    with pytest.raises(UnsupportedError, match=r"scale=tensor\(0.5.*: give a number"):
        run(*given, scale=torch.tensor(0.5, requires_grad=True))
    for scale in (math.nan, math.inf, "2", True):
        with pytest.raises(UnsupportedError, match=rf"scale={scale!r}: give a number"):
            run(*given, scale=scale)
