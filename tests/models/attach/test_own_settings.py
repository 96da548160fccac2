"""Settings of attention that posenc takes over with the code, and dropout that it leaves alone."""

from typing import Any

import pytest
import torch

from tests.support.own_code import MODELS, assert_same, inputs, output, text

pytest.importorskip("transformers")


def pair(name: str, settings: dict[str, Any]) -> tuple[Any, Any]:
    theirs, ours = MODELS[name].pair(**settings)
    return theirs, ours


@pytest.mark.parametrize("inner", [{"softmax_scale": 0.05}, {"clip_qkv": 0.5}], ids=str)
@torch.no_grad()
def test_mpt_scales_and_clips(inner: dict[str, float]) -> None:
    told = inputs("mpt", text())
    theirs, ours = pair("mpt", {"attn_config": inner})
    expected = output(theirs, **told)
    assert (expected - output(MODELS["mpt"].build(), **told)).abs().max() > 1e-2
    assert_same(output(ours, **told), expected)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("bloom", {"hidden_dropout": 0.25}),
        ("falcon, one key head", {"hidden_dropout": 0.25}),
        ("falcon, alibi", {"hidden_dropout": 0.25}),
    ],
)
@torch.no_grad()
def test_hidden_numbers_are_dropped_as_before(name: str, settings: dict[str, float]) -> None:
    made = []
    for model in pair(name, settings):
        # As nothing is dropped in attention, the same seed drops the same numbers of both.
        torch.manual_seed(1)
        made.append(output(model.train(), **inputs(name, text())))
    assert_same(made[1], made[0])
