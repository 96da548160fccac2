"""A model gets posenc, loses it, and is saved: nothing of it stays behind."""

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import posenc as pe
from posenc.models.attach import detach, watch
from tests.support.families import FAMILIES
from tests.support.forwards import assert_differ, assert_same, logits, text

transformers = pytest.importorskip("transformers")


def state(model: Any) -> tuple[list[str], dict[str, Any], list[str]]:
    """What a model consists of, so that anything left behind shows."""
    parts = [f"{name}: {type(module).__name__}" for name, module in model.named_modules()]
    fields = [f"{name}.{key}" for name, x in model.named_modules() for key in sorted(vars(x))]
    return parts, model.config.to_dict(), fields


@pytest.mark.parametrize("name", FAMILIES)
def test_detached_it_is_as_before_to_the_bit(name: str) -> None:
    model = FAMILIES[name].build()
    before, whole, hooks = logits(model, text()), state(model), _hooks(model)
    pe.attach(model)
    assert model.config._attn_implementation == "posenc"
    detach(model)
    assert torch.equal(logits(model, text()), before)
    assert state(model) == whole
    assert _hooks(model) == hooks
    assert model.config._attn_implementation == FAMILIES[name].truth
    # Nothing is left to take away.
    detach(model)


@torch.no_grad()
@pytest.mark.parametrize(
    "through", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))]
)
@pytest.mark.parametrize("name", FAMILIES)
def test_a_copy_is_detached_alone(
    name: str, through: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = FAMILIES[name].build()
    plain = logits(model, text())
    attachment = pe.attach(model)
    attached, settings = logits(model, text()), str(model.config)
    monkeypatch.delitem(transformers.AttentionInterface._global_mapping, "posenc")
    copied = through(model)
    assert str(copied._posenc) == str(attachment)
    assert torch.equal(logits(copied, text()), attached)
    detach(copied)
    assert torch.equal(logits(copied, text()), plain)
    assert _hooks(copied) == _hooks(FAMILIES[name].build())
    assert str(model.config) == settings
    assert model._posenc is attachment
    assert torch.equal(logits(model, text()), attached)


@pytest.mark.parametrize("model", [None, "gpt2", torch.nn.Linear(2, 2)])
def test_what_is_no_model_is_refused(model: Any) -> None:
    with pytest.raises(pe.UnsupportedError, match="a model of transformers, with its config"):
        pe.attach(model)
    detach(model)


def _hooks(model: Any) -> int:
    return sum(len(module._forward_pre_hooks) for module in model.modules())


@pytest.mark.parametrize("name", FAMILIES)
def test_attached_twice_it_is_attached_once(name: str) -> None:
    model = FAMILIES[name].build()
    before = logits(model, text())
    first = str(pe.attach(model))
    once, parts = logits(model, text()), state(model)
    assert str(pe.attach(model)) == first
    assert torch.equal(logits(model, text()), once)
    assert state(model) == parts
    detach(model)
    assert torch.equal(logits(model, text()), before)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_layer_attends_by_posenc(name: str) -> None:
    _, ours = FAMILIES[name].pair()
    seen: list[int] = []
    with watch(ours, lambda layer, *_: seen.append(layer)):
        logits(ours, text())
    assert seen == [0, 1, 2]


@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_saved_is_a_plain_model(name: str, tmp_path: Path) -> None:
    _, ours = FAMILIES[name].pair()
    ours.save_pretrained(tmp_path)
    plain = type(ours).from_pretrained(tmp_path, attn_implementation=FAMILIES[name].truth).eval()
    assert not any("posenc" in key for key in plain.state_dict())
    assert_same(logits(plain, text()), logits(ours, text()))


def test_an_encoding_in_place_of_another() -> None:
    theirs, ours = FAMILIES["llama"].pair()
    own = logits(ours, text())
    pe.attach(ours, pe.ALiBi(heads=4))
    biased = logits(ours, text())
    assert_differ(biased, own, "ALiBi in place of RoPE")
    pe.attach(ours, pe.Rotary(8))
    assert_same(logits(ours, text()), logits(theirs, text()))


@pytest.mark.parametrize("name", FAMILIES)
def test_loaded_by_name(name: str) -> None:
    """register() and attn_implementation="posenc", with transformers' own rotations."""
    pe.models.attach.register()
    theirs, ours = (FAMILIES[name].build() for _ in range(2))
    ours.set_attn_implementation("posenc")
    assert_same(logits(ours, text()), logits(theirs, text()))


@pytest.mark.parametrize("name", ["llama", "gemma3", "phi3", "modernbert", "smollm3", "gpt neox"])
def test_keys_kept_as_they_are_projected(name: str) -> None:
    theirs, ours = (FAMILIES[name].build() for _ in range(2))
    pe.attach(ours, raw_keys=True)
    assert_same(logits(ours, text()), logits(theirs, text()))


def test_a_tower_of_pictures_keeps_its_own_attention_setting() -> None:
    model = FAMILIES["llama"].build()
    model.set_attn_implementation("eager")
    pe.attach(model)
    detach(model)
    assert model.config._attn_implementation == "eager"


def test_a_rotation_reaches_layers_whose_code_does_not_turn() -> None:
    """SmolLM3's code turns in two of these three layers; a rotation that is asked for, in all."""
    config = FAMILIES["smollm3"].config()
    model = transformers.SmolLM3ForCausalLM(config).eval()
    everywhere = type(config)(**config.to_dict() | {"no_rope_layers": [1, 1, 1]})
    theirs = transformers.SmolLM3ForCausalLM(everywhere).eval()
    theirs.load_state_dict(model.state_dict())
    expected = logits(theirs, text())
    assert_differ(logits(model, text()), expected, "a layer without position")
    pe.attach(model, pe.Rotary(config.head_dim, base=config.rope_parameters["rope_theta"]))
    assert_same(logits(model, text()), expected)
