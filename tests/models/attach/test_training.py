"""Gradients of a model with posenc are those of transformers."""

from typing import Any

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc.errors import UnsupportedError
from tests.support.families import DECODERS, FAMILIES
from tests.support.forwards import assert_same, checkpoint, left_padding, text

pytest.importorskip("transformers")

# Rounding of three layers, forwards and backwards.
TOLERANCE = 5e-5


@pytest.fixture(params=FAMILIES)
def pair(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    theirs, ours = FAMILIES[request.param].pair()
    return theirs.train(), ours.train()


def gradients(model: Any, **told: Any) -> dict[str, Tensor]:
    ids = text()
    labels = ids.roll(1, dims=1)
    if "attention_mask" in told:
        # The padding before a text would else be asked for its first token.
        labels = labels.masked_fill(told["position_ids"] == 0, -100)
    model.zero_grad()
    model(ids, labels=labels, **told).loss.backward()
    return {
        name: parameter.grad.clone()
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }


def assert_same_gradients(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    # Some, as biases of keys, have gradients that are rounding alone.
    largest = max(float(x.abs().max()) for x in theirs.values())
    for name, expected in theirs.items():
        apart = (ours[name] - expected).abs().max()
        bound = TOLERANCE * max(float(expected.abs().max()), 1e-2 * largest)
        assert apart < bound, f"{name}: {apart:.1e} apart, of at most {expected.abs().max():.1e}"


@pytest.mark.parametrize("padded", [False, True])
def test_gradients_of_all_parameters(pair: tuple[Any, Any], padded: bool) -> None:
    told = left_padding(text(), [15, 8]) if padded else {}
    theirs, ours = (gradients(model, **told) for model in pair)
    assert_same_gradients(ours, theirs)
    assert len(ours) > 20


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_changes_no_gradient(pair: tuple[Any, Any], reentrant: bool) -> None:
    told = left_padding(text(), [15, 8])
    kept = gradients(pair[1], **told)
    checkpoint(pair[1], reentrant)
    attentions = [module for module in pair[1].modules() if hasattr(module, "posenc_plan")]
    calls: list[int] = []
    for module in attentions:
        module.register_forward_hook(lambda module, *_: calls.append(module.layer_idx))
    assert_same_gradients(gradients(pair[1], **told), kept)
    assert len(calls) == 2 * len(attentions)


@pytest.mark.parametrize("name", DECODERS)
def test_an_encoding_in_attention_learns_under_checkpointing(name: str) -> None:
    """Each layer is computed again after another forward pass, at other positions."""
    model = FAMILIES[name].build()
    encoding = pe.T5Bias(heads=4)
    torch.nn.init.normal_(encoding.weight)
    pe.attach(model, encoding)
    model.train()
    # Packed documents in the first pass, none in the second.
    packed = {"position_ids": torch.cat([torch.arange(6), torch.arange(9)])[None]}
    expected = _of_two_passes(model, packed)
    checkpoint(model, reentrant=False)
    made = _of_two_passes(model, packed)
    assert any("posenc" in key for key in made)
    assert_same_gradients(made, expected)


def test_cos_and_sin_that_learn_are_not_checkpointed_layer_by_layer() -> None:
    """torch said "backward through the graph a second time", of which nobody was guilty."""

    def made(*, reentrant: bool | None = None, raw_keys: bool = False) -> Any:
        model = FAMILIES["llama"].build().train()
        pe.attach(model, pe.LearnedRotary(8), raw_keys=raw_keys)
        if reentrant is not None:
            checkpoint(model, reentrant)
        return model

    expected = gradients(made())
    assert any("posenc" in key for key in expected)
    assert_same_gradients(gradients(made(reentrant=False)), expected)
    assert_same_gradients(gradients(made(reentrant=True, raw_keys=True)), expected)
    refused = made(reentrant=True)
    with pytest.raises(UnsupportedError, match="'use_reentrant': False"):
        gradients(refused)
    refused.posenc.requires_grad_(False)
    gradients(refused)


def _of_two_passes(model: Any, packed: dict[str, Tensor]) -> dict[str, Tensor]:
    model.zero_grad()
    ids = text()
    losses = [model(ids, labels=ids, use_cache=False, **told).loss for told in (packed, {})]
    sum(losses).backward()
    named = model.named_parameters()
    return {name: x.grad.clone() for name, x in named if x.grad is not None}


def test_dropout_takes_its_share() -> None:
    _, ours = FAMILIES["llama"].pair()
    ours.config.attention_dropout = 0.5
    for layer in ours.model.layers:
        layer.self_attn.attention_dropout = 0.5
    ids = text()
    with torch.no_grad():
        quiet = ours(ids).logits
        assert_same(ours(ids).logits, quiet)
        ours.train()
        assert not torch.allclose(ours(ids).logits, quiet)
