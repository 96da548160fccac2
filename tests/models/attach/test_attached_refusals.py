"""What cannot be done is said by name, and leaves the model as it was."""

import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import posenc as pe
from posenc.errors import PosencError, ShapeError, UnknownNameError, UnsupportedError
from posenc.models.attach import register, watch
from posenc.models.attach.caches import PosencCache
from posenc.models.attach.registration import OLDEST
from posenc.models.cache_names import given_cache
from tests.models.attach.test_attachment import state
from tests.support.families import FAMILIES, Family
from tests.support.forwards import logits, text

transformers = pytest.importorskip("transformers")
PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())

OWN_CODE = {"stablelm": {}, "gpt_neo": {"attention_types": [[["global", "local", "global"], 1]]}}
# Of a model: what is asked, and what the error says.
REFUSED: dict[str, tuple[str, Callable[[], Any], type[PosencError], str]] = {
    "other heads": ("llama", lambda: pe.ALiBi(heads=8), ShapeError, "heads=8"),
    "other dimensions": ("llama", lambda: pe.Rotary(16), ShapeError, "head_dim=16"),
    "fewer that turn": (
        "llama",
        lambda: pe.Rotary(8, rotary_dim=4),
        UnsupportedError,
        "gives 4 numbers per token and LlamaRotaryEmbedding 8",
    ),
    "another layout": (
        "llama",
        lambda: pe.Rotary(8, layout="interleaved"),
        UnsupportedError,
        "give layout='half'",
    ),
    "the other layout": (
        "cohere",
        lambda: pe.Rotary(8),
        UnsupportedError,
        "give layout='interleaved'",
    ),
    "added to embeddings": (
        "llama",
        lambda: pe.Sinusoidal(32),
        UnsupportedError,
        "Sinusoidal.* is added to embeddings, and llama adds no positions there",
    ),
    "reads its layer": (
        "llama",
        lambda: pe.ForgetGate(32, heads=4),
        UnsupportedError,
        "ForgetGate.* reads the input of its layer",
    ),
    "two rotations": (
        "llama",
        lambda: [pe.Rotary(8), pe.XPos(8)],
        UnsupportedError,
        "2 rotations in one layer",
    ),
    "causal only": (
        "bert",
        lambda: pe.ReRoPE(8, window=4),
        UnsupportedError,
        "causal attention only, and tokens of bert",
    ),
    "another width": ("gpt2", lambda: pe.Sinusoidal(64), PosencError, "dim=64"),
    "two tables": (
        "gpt2",
        lambda: [pe.Sinusoidal(32), pe.Learned(32, 128)],
        UnsupportedError,
        "there is one table of positions",
    ),
    "no encoding": ("llama", lambda: "rotary", UnsupportedError, "str is no encoding"),
    "one layer of many": (
        "llama",
        lambda: lambda layer: pe.Rotary(16 if layer == 2 else 8),
        ShapeError,
        "head_dim=16",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_encoding_that_does_not_fit(name: str, unhooked: None) -> None:
    family, make, error, says = REFUSED[name]
    model = FAMILIES[family].build()
    before, whole = logits(model, text()), state(model)
    with pytest.raises(error, match=says):
        pe.attach(model, make())
    assert state(model) == whole
    assert torch.equal(logits(model, text()), before)


@pytest.mark.parametrize("model_type", OWN_CODE)
def test_a_model_with_attention_of_its_own(model_type: str) -> None:
    model = Family(model_type, OWN_CODE[model_type], truth="eager").build()
    with pytest.raises(UnsupportedError, match=f"{type(model).__name__} does not tell that all"):
        pe.attach(model)


def test_a_model_type_that_nobody_knows() -> None:
    class Other(transformers.LlamaConfig):
        model_type = "oddball"

    config = FAMILIES["llama"].config()
    config.__class__ = Other
    with pytest.raises(UnknownNameError, match="no model type is called 'oddball'"):
        pe.attach(transformers.LlamaForCausalLM(config))


def test_an_older_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Than the extra asks for: caches would be cropped to another length, without a word."""
    (extra,) = (x for x in PROJECT["project"]["optional-dependencies"]["models"] if "formers" in x)
    assert extra == f"transformers>={'.'.join(map(str, OLDEST))}"
    model = FAMILIES["llama"].build()
    expected = logits(model, text())
    monkeypatch.setattr(sys.modules["transformers"], "__version__", "5.9.1")
    with pytest.raises(UnsupportedError, match=r"transformers 5\.9\.1 is older than 5\."):
        pe.attach(model)
    assert torch.equal(logits(model, text()), expected)
    monkeypatch.setattr(sys.modules["transformers"], "__version__", "6.0.0.dev0")
    pe.attach(model)


def test_no_model_at_all() -> None:
    with pytest.raises(UnsupportedError, match=r"attach\(Linear\): a model of transformers"):
        pe.attach(torch.nn.Linear(2, 2))
    with (
        pytest.raises(UnsupportedError, match=r"attach\(model\) first"),
        watch(FAMILIES["llama"].build(), lambda *_: None),
    ):
        pass


def test_scores_that_posencs_caches_cannot_make() -> None:
    _, ours = FAMILIES["gemma2"].pair()
    with pytest.raises(UnsupportedError, match="with posenc's caches"):
        logits(ours, text(), **given_cache(ours, PosencCache(ours)))


def test_positions_that_leap_behind_a_cache() -> None:
    """Distances to tokens of a cache are counted, for their position_ids are forgotten."""
    model = FAMILIES["llama"].build()
    pe.attach(model, pe.ALiBi(heads=4))
    cache = transformers.DynamicCache(config=model.config)
    held = given_cache(model, cache)
    logits(model, text()[:, :5], **held)
    with pytest.raises(PosencError, match="needs cached tokens"):
        logits(model, text()[:, 5:6], **held, position_ids=torch.tensor([[9]]))


def test_a_model_spread_over_devices_is_refused() -> None:
    model = FAMILIES["llama"].build()
    model.hf_device_map = {"model.layers.0": 0, "model.layers.1": 1, "lm_head": "cpu"}
    with pytest.raises(UnsupportedError, match=r"LlamaForCausalLM\) with layers on 0, 1"):
        pe.attach(model)
    # Offloaded layers come to the device that computes.
    model.hf_device_map = {"model.layers.0": 0, "model.layers.1": "cpu", "lm_head": "disk"}
    pe.attach(model)


@pytest.mark.parametrize("model_type", ["hunyuan_v1_dense", "hunyuan_v1_moe"])
def test_what_is_weighed_behind_its_rotation_is_not_turned_later(model_type: str) -> None:
    """HunYuan's weights of dimensions would come before the rotation: other scores."""
    experts = {"num_experts": 2, "moe_topk": 1} if model_type.endswith("moe") else {}
    family = Family(model_type, experts)
    model, expected = family.build(), logits(family.build(), text())
    zones = pe.SelfExtend(8, window=4, group=2)
    for asked, raw_keys in ((None, True), (zones, False), ([pe.Rotary(8), pe.NoPE()], True)):
        with pytest.raises(UnsupportedError, match="a weight for each dimension of a head behind"):
            pe.attach(model, asked, raw_keys=raw_keys)
        assert torch.equal(logits(model, text()), expected)
    assert "cos and sin" in str(pe.attach(model, [pe.Rotary(8), pe.SlidingWindow(64)]))
    torch.testing.assert_close(logits(model, text()), expected, rtol=0, atol=1e-4)


def test_by_name_alone_in_a_model_that_adds_its_masks_itself() -> None:
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1}
    image = {"num_attention_heads": 4, "image_size": 16, "patch_size": 4}
    config = transformers.BeitConfig(use_relative_position_bias=True, **sizes, **image)
    model = transformers.BeitModel(config).eval()
    register()
    model.set_attn_implementation("posenc")
    with pytest.raises(UnsupportedError, match="adds masks to scores by itself"):
        model(torch.randn(1, 3, 16, 16))


def test_attention_that_tells_no_layer() -> None:
    config = transformers.ViTConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2)
    with pytest.raises(UnsupportedError, match=r"ViTModel tells of no layer \(layer_idx\)"):
        pe.attach(transformers.ViTModel(config))
