"""Losses in chunks are those of one forward pass, and few logits are held at a time."""

from typing import Any

import pytest
import torch
from extend_models import tiny_model
from torch import Tensor

from posenc.models.extend.forward import score
from posenc.models.extend.peak import peak_memory


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny_model()


@pytest.fixture(scope="module")
def ids() -> Tensor:
    return torch.randint(0, 256, (70,), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("chunk", [1, 7, 64, 512])
@pytest.mark.parametrize("first", [1, 2, 33, 69])
def test_losses_and_ranks_are_those_of_one_forward(
    chunk: int, first: int, model: Any, ids: Tensor
) -> None:
    with torch.no_grad():
        logits = model(ids[None]).logits[0, :-1]
    losses = torch.nn.functional.cross_entropy(logits, ids[1:], reduction="none")
    places = logits.argsort(dim=-1, descending=True) == ids[1:, None]
    scored = score(model, ids, first, chunk)
    assert torch.allclose(scored.loss, losses[first - 1 :], atol=1e-5)
    assert torch.equal(scored.rank, places.int().argmax(-1)[first - 1 :])


def test_logits_are_made_of_scored_tokens_only(model: Any, ids: Tensor) -> None:
    rows: list[int] = []
    head = model.get_output_embeddings()
    hook = head.register_forward_hook(lambda *call: rows.append(call[2].shape[1]))
    score(model, ids, 60, 16)
    # Five chunks of 69 tokens; the first that is scored is predicted from token 59.
    assert rows == [1, 1, 1, 5, 5]
    hook.remove()


def test_the_peak_is_what_was_held_at_most() -> None:
    with peak_memory() as peak:
        held = torch.ones(8_000_000)
        del held
    if peak.mb is None:
        pytest.skip("this Python has no way to set the high-water mark of memory back")
    assert 30 < peak.mb < 40
