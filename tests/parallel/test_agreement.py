"""Ranks that are given different things say so, all of them, where they would wait or be wrong."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

import posenc as pe
from posenc import Positions
from posenc.errors import PosencError
from tests.support.pair import Pair

pytestmark = pytest.mark.long
WAYS = {"ring": pe.ring_attend, "ulysses": pe.ulysses_attend}
# What the second rank does otherwise, and what both are told.
OTHERWISE = {
    "fewer tokens": "ShapeError: ranks 0 and 1 of 2 differ in q.shape ([2, 4, 8, 8] and [2, 4, 3",
    "fewer key heads": "ShapeError: ranks 0 and 1 of 2 differ in k.shape",
    "another dtype": "ShapeError: ranks 0 and 1 of 2 differ in dtypes",
    "frozen keys": "ShapeError: ranks 0 and 1 of 2 differ in requires_grad",
    "no context": "ShapeError: ranks 0 and 1 of 2 differ in context",
    "another encoding": "PositionsError: ranks 0 and 1 of 2 differ in encoding",
    "another plan": "PositionsError: ranks 0 and 1 of 2 differ in plan",
    "other documents": "PositionsError: ranks 0 and 1 of 2 differ in positions",
}


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    found = Pair()
    yield found
    found.close()


def told(way: str, what: str) -> str:
    """What a rank is told where the second one has something else."""
    other = dist.get_rank() == 1
    positions: dict[str, Any] = {"lengths": [8, 8]} if other and what == "other documents" else {}
    whole = Positions.build(**positions or {"q_len": 16}, causal=True)
    plan = "striped" if other and what == "another plan" else "contiguous"
    q, k, v = torch.randn(3, 2, 4, 8, 8, dtype=torch.float64).requires_grad_().unbind()
    context: pe.Context | None = pe.Context(torch.randn(2, 8, 32, dtype=torch.float64))
    encoding: pe.Encoding = pe.ForgetGate(32, heads=4).double()
    if other and what == "fewer tokens":
        q, k, v = q[:, :, :3], k[:, :, :3], v[:, :, :3]
    elif other and what == "fewer key heads":
        k, v = k[:, :2], v[:, :2]
    elif other and what == "another dtype":
        q, k, v = q.float(), k.float(), v.float()
    elif other and what == "frozen keys":
        k = k.detach()
    elif other and what == "no context":
        context = None
    elif other and what == "another encoding":
        encoding = pe.ALiBi(4)
    try:
        WAYS[way](q, k, v, encoding, positions=whole, plan=plan, context=context)
    except PosencError as error:
        return f"{type(error).__name__}: {error}"
    return ""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("what", OTHERWISE)
def test_each_rank_is_told_in_what_they_differ(pair: Pair, way: str, what: str) -> None:
    first, second = pair(told, way, what)
    assert first.startswith(OTHERWISE[what]), first
    assert second.startswith(OTHERWISE[what].partition(":")[0] + ": ranks 1 and 0 of 2"), second


@pytest.mark.parametrize("way", WAYS)
def test_ranks_that_agree_are_not_told(pair: Pair, way: str) -> None:
    assert pair(told, way, "") == ["", ""]


def exchanges(shared: bool) -> tuple[int, str]:
    """How often ranks are asked in two layers with the same positions, and what one that is in no
    group is told."""
    asked, exchange = [], dist.all_to_all_single
    whole = Positions.build(16, causal=True)
    positions = pe.Sharded(whole, 2, "zigzag") if shared else whole
    mesh = init_device_mesh("cpu", (2,))
    q, k, v = torch.randn(3, 1, 2, 8, 8).unbind()
    dist.all_to_all_single = lambda *x, **y: asked.append(1) or exchange(*x, **y)
    try:
        for _ in range(2):
            pe.ring_attend(q, k, v, pe.Rotary(8), positions=positions, group=mesh)
    finally:
        dist.all_to_all_single = exchange
    copy.deepcopy(positions)
    alone, said = dist.new_group([0]), ""
    try:
        pe.ring_attend(q, k, v, pe.Rotary(8), positions=Positions.build(8), group=alone)
    except PosencError as error:
        said = str(error)
    return len(asked), said


@pytest.mark.parametrize("shared", [True, False])
def test_they_are_asked_once_of_all_layers(pair: Pair, shared: bool) -> None:
    (first, said), (second, said_there) = pair(exchanges, shared)
    assert first == second == 1
    assert not said
    assert "rank 1 of all processes is no rank of this group" in said_there
