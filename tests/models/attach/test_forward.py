"""posenc under a model computes what transformers computes: one forward pass."""

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.families import FAMILIES
from tests.support.forwards import assert_same, left_padding, logits, text

pytest.importorskip("transformers")

ROWS = [15, 9, 4]


@pytest.fixture(scope="module", params=FAMILIES)
def pair(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    return FAMILIES[request.param].pair()


def test_prefill(pair: tuple[Any, Any]) -> None:
    theirs, ours = (logits(model, text()) for model in pair)
    assert_same(ours, theirs)


def test_left_padding(pair: tuple[Any, Any]) -> None:
    ids = text(rows=3)
    told = left_padding(ids, ROWS)
    theirs, ours = (_real(logits(model, ids, **told), told) for model in pair)
    assert_same(ours, theirs)
    assert_same(ours, _alone(pair[1], [ids[i : i + 1, -n:] for i, n in enumerate(ROWS)]))


def test_right_padding(pair: tuple[Any, Any]) -> None:
    ids = text(rows=3)
    told = {"attention_mask": left_padding(ids, ROWS)["attention_mask"].flip(-1)}
    told["position_ids"] = torch.arange(ids.shape[1])[None].expand(3, -1)
    theirs, ours = (_real(logits(model, ids, **told), told) for model in pair)
    assert_same(ours, theirs)
    assert_same(ours, _alone(pair[1], [ids[i : i + 1, :n] for i, n in enumerate(ROWS)]))


def _real(x: Tensor, told: dict[str, Tensor]) -> Tensor:
    return x[told["attention_mask"].bool()]


def _alone(model: Any, rows: list[Tensor]) -> Tensor:
    places = [torch.arange(row.shape[1])[None] for row in rows]
    whole = [logits(model, x, position_ids=at)[0] for x, at in zip(rows, places, strict=True)]
    return torch.cat(whole)
