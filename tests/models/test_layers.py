"""Layers that differ: presets against transformers, one lowering for each kind, caches that fit."""

from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import shared_terms
from posenc.models.cache_names import given_cache
from posenc.models.presets import PRESETS
from tests.models.test_read_facts import facts

DEPTH, HEADS, DIM, LENGTH = 8, 2, 16, 24
SIZES = {
    "num_hidden_layers": DEPTH,
    "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS,
    "hidden_size": HEADS * DIM,
    "intermediate_size": 16,
    "vocab_size": 50,
}
# Settings that show within a few tokens.
NARROW: dict[str, dict[str, Any]] = {
    "llama4": {"attention_chunk_size": 7, "floor_scale": 5, "attn_scale": 0.7},
    "smollm3": {},
    "cohere2": {"sliding_window": 5},
    "gemma3": {"sliding_window": 5},
    "gemma4": {"sliding_window": 5},
    "modernbert": {"local_attention": 8},
    "gpt_oss": {"sliding_window": 5},
}
# How many layers hide tokens for good.
LOCAL = {"llama4": 6, "smollm3": 0, "cohere2": 6, "gemma3": 7, "gemma4": 6, "gpt_oss": 4}
MORE: dict[str, dict[str, Any]] = {
    "llama4": {"num_local_experts": 1, "intermediate_size_mlp": 16, "moe_layers": []},
    "gemma4": {"hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0},
    "modernbert": {"cls_token_id": 1, "sep_token_id": 2},
    "gpt_oss": {"num_local_experts": 1, "num_experts_per_tok": 1},
}
# The model that each preset is named for, and what differs from its file.
PUBLISHED: dict[str, tuple[str, dict[str, Any]]] = {
    # Its release stretches what it was trained on.
    "llama4": ("llama-4-scout-17b-16e-instruct", {"rope_scaling": None}),
    "smollm3": ("smollm3-3b", {}),
    "cohere2": ("command-r7b-12-2024", {}),
    "gemma3": ("gemma-3-4b-it", {}),
    "gemma4": ("gemma-4-31b-it", {}),
    "modernbert": ("modernbert-base", {}),
    "gpt_oss": ("gpt-oss-20b", {}),
}


def preset(name: str, **more: Any) -> Any:
    return pe.layers(name, DEPTH, heads=HEADS, head_dim=DIM, **NARROW[name], **more)


def tokens() -> Tensor:
    return torch.randint(3, 50, (2, LENGTH), generator=torch.Generator().manual_seed(0))


def tiny(name: str) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM

    sizes = SIZES if name == "modernbert" else SIZES | {"head_dim": DIM}
    values = dict(PRESETS[name]) | NARROW[name] | sizes | MORE.get(name, {})
    config = AutoConfig.for_model(**(values | {"pad_token_id": 0}))
    torch.manual_seed(0)
    maker = AutoModelForMaskedLM if name == "modernbert" else AutoModelForCausalLM
    model = maker.from_config(config, attn_implementation="eager").eval()
    # Wide, so that attention prefers some tokens.
    for name, weight in model.named_parameters():
        if name.endswith(("q_proj.weight", "k_proj.weight", "Wqkv.weight", "sinks")):
            torch.nn.init.normal_(weight)
    return model


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_says_what_the_published_file_does(name: str) -> None:
    file, other = PUBLISHED[name]
    values = dict(facts(file)["config"])
    inner = values.get("text_config", values)
    inner |= other
    layer = pe.read(values).layers[0]
    assert layer is not None
    depth, sizes = len(pe.read(values).layers), {"heads": layer.heads, "head_dim": layer.head_dim}
    wide = {"global_head_dim": 512} if name == "gemma4" else {}
    assert repr(pe.layers(name, depth, **sizes, **wide)) == repr(pe.layers(values))


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_what_transformers_does(name: str) -> None:
    from posenc.models.attach.caches import PosencCache

    model = tiny(name)
    with torch.no_grad():
        expected = model(tokens()).logits
        wide = {"global_head_dim": 512} if name == "gemma4" else {}
        layers = preset(name, **wide)
        pe.attach(model, layers)
        torch.testing.assert_close(model(tokens()).logits, expected, rtol=1e-4, atol=1e-4)
        if name != "modernbert":
            cache = PosencCache(model, layers.caches())
            steps = [
                model(new, **given_cache(model, cache)).logits
                for new in tokens().split([9, 1, 1, 7, 1, 5], dim=1)
            ]
            torch.testing.assert_close(torch.cat(steps, dim=1), expected, rtol=1e-4, atol=1e-4)
            held = [len(cache.of_layer(number)) for number in range(DEPTH)]
            assert sum(count < 7 for count in held) == LOCAL[name]
        # Nothing else would do.
        pe.attach(model, [])
        assert not torch.allclose(model(tokens()).logits, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", LOCAL)
def test_decoding_holds_what_each_layer_can_see(name: str) -> None:
    layers = preset(name)
    torch.manual_seed(0)
    model = pe.Transformer(50, HEADS * DIM, DEPTH, HEADS, encoding=layers).double().eval()
    caches = layers.caches()
    with torch.no_grad():
        steps = [model(new, caches=caches) for new in tokens().split([9, 1, 1, 7, 1, 5], dim=1)]
        torch.testing.assert_close(torch.cat(steps, dim=1), model(tokens()))
    assert sum(len(cache) < 7 for cache in caches) == LOCAL[name]
    assert sum(len(cache) == LENGTH for cache in caches) == DEPTH - LOCAL[name]


def test_each_kind_is_lowered_once() -> None:
    model = pe.Transformer(50, HEADS * DIM, DEPTH, HEADS, encoding=preset("llama4"))
    caches = preset("llama4").caches()
    for given in (None, caches, caches):
        with mock.patch.object(shared_terms, "lower", wraps=shared_terms.lower) as lowered:
            model(tokens()[:, :1] if given else tokens(), caches=given)
        assert lowered.call_count == 2


def test_what_is_shared_is_saved_once_and_what_learns_is_not_shared() -> None:
    shared = pe.T5Bias(HEADS)
    parts = [shared, pe.T5Bias(HEADS), shared]
    model = pe.Transformer(50, HEADS * DIM, 3, HEADS, encoding=lambda n: [parts[n], pe.NoPE()])
    biases = [name for name in model.state_dict() if "encodings" in name]
    assert len(biases) == 2
    assert model.encodings_of(2)[0] is shared
    seen = pe.layers({"model_type": "smollm3", **SIZES, "head_dim": DIM})
    assert seen[0] == seen[1]
    assert seen[3] == []


def test_what_no_encoding_says_is_refused() -> None:
    with pytest.raises(pe.SettingError, match="say of how many"):
        pe.layers("smollm3")
    with pytest.raises(pe.UnknownNameError, match="smollm3"):
        pe.layers("smolm3", 4)
    with pytest.raises(pe.SettingError, match="a configuration says its sizes"):
        pe.layers({"model_type": "smollm3"}, 4)
    with pytest.raises(pe.UnsupportedError, match="embeddings"):
        pe.layers({"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 8, "n_positions": 9})
