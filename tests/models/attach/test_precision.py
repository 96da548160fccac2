"""Half precision: the error of the numbers themselves, and none of positions."""

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.families import FAMILIES
from tests.support.forwards import assert_same, logits, text

pytest.importorskip("transformers")


def error(made: Tensor, truth: Tensor) -> Tensor:
    return (made.double() - truth).square().mean().sqrt()


def rounded(name: str) -> tuple[Any, Any, Any]:
    """A model of numbers that bfloat16 has, in float32, and in bfloat16 without posenc and with."""
    theirs, ours = (model.to(torch.bfloat16) for model in FAMILIES[name].pair())
    truth = FAMILIES[name].build()
    truth.load_state_dict(theirs.state_dict())
    return truth, theirs, ours


def assert_as_close(made: Tensor, other: Tensor, truth: Tensor) -> None:
    """No further from the truth than another, but for what rounding leaves to chance."""
    apart, others = error(made, truth), error(other, truth)
    assert apart < 1.25 * others, f"{apart:.4f} from the truth, and {others:.4f}"


@pytest.mark.parametrize("name", FAMILIES)
def test_bfloat16(name: str) -> None:
    ids = text(rows=8, length=20)
    truth, theirs, ours = (logits(model, ids) for model in rounded(name))
    assert ours.dtype == torch.bfloat16
    assert_as_close(ours, theirs, truth)


def test_a_model_that_is_moved_to_bfloat16_keeps_its_angles() -> None:
    """In transformers model.to(torch.bfloat16) rounds inv_freq too, by up to one part in 256."""
    theirs, ours = FAMILIES["llama"].pair()
    exact = theirs.model.rotary_emb.inv_freq.double().clone()
    places = torch.tensor([[1000]])
    for model in (theirs, ours):
        model.to(torch.bfloat16)
    angles = []
    for model in (theirs, ours):
        cos, sin = model.model.rotary_emb(torch.zeros(1, dtype=torch.float64), places)
        angles.append(torch.atan2(sin, cos)[0, 0, :4].double())
    wanted = torch.atan2((1000 * exact).sin(), (1000 * exact).cos())
    torch.testing.assert_close(angles[1], wanted, atol=1e-4, rtol=0)
    assert (angles[0] - wanted).abs().max() > 0.05


@pytest.mark.parametrize("name", ["llama", "olmo2"])
def test_cos_and_sin_are_as_exact_as_the_models_own(name: str) -> None:
    """OLMo 2 turns in float32, whatever its numbers are."""
    theirs, ours = (model.model.rotary_emb for model in FAMILIES[name].pair())
    x, places = torch.zeros(1, dtype=torch.bfloat16), torch.ones(1, 1).long()
    assert ours(x, places)[0].dtype == theirs(x, places)[0].dtype
    assert ours(x.double(), places)[0].dtype == torch.float64


def test_under_autocast() -> None:
    theirs, ours = FAMILIES["llama"].pair()
    ids = text(rows=8)
    truth = logits(theirs, ids)
    with torch.autocast("cpu", torch.bfloat16):
        made, other = logits(ours, ids), logits(theirs, ids)
    assert_as_close(made, other, truth)


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma2"])
def test_float64_is_computed_in_float64(name: str) -> None:
    theirs, ours = (model.double() for model in FAMILIES[name].pair())
    assert_same(logits(ours, text()), logits(theirs, text()), tolerance=1e-6)
