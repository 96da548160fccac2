"""Heads of which the last dimensions turn: attached models of DeepSeek compute what they did."""

from typing import Any

import pytest
import torch

import posenc as pe
from posenc.errors import UnsupportedError

transformers = pytest.importorskip("transformers")
IDS = torch.randint(1, 97, (2, 12), generator=torch.Generator().manual_seed(0))
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8}
YARN |= {"rope_theta": 10_000.0, "mscale": 1.0, "mscale_all_dim": 0.7}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "v2": ("DeepseekV2", {}),
    "v3": ("DeepseekV3", {}),
    "v3, halves": ("DeepseekV3", {"rope_interleave": False}),
    "v3, yarn": ("DeepseekV3", {"rope_parameters": YARN}),
}


def model(name: str) -> Any:
    kind, settings = MODELS[name]
    heads = {"num_attention_heads": 4, "num_key_value_heads": 4, "q_lora_rank": 16}
    latent = {"kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16}
    experts = {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
    groups = {"n_group": 1, "topk_group": 1, "first_k_dense_replace": 1}
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=97, **sizes, **heads, **latent, **experts, **groups, **settings
    )
    torch.manual_seed(0)
    made = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    for parameter in made.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, 0.0, 0.15)
    return made


# Its own factor of YaRN is told of as not being that of the lengths.
@pytest.mark.filterwarnings("ignore:.*rope_parameters.*")
@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_it_computes_and_decodes_what_it_did(name: str) -> None:
    one = model(name)
    expected, settings = one(IDS).logits, {"max_new_tokens": 4, "do_sample": False}
    tokens = one.generate(IDS, **settings)
    assert "cos and sin" in str(pe.attach(one))
    torch.testing.assert_close(one(IDS).logits, expected, atol=2e-5, rtol=0)
    assert torch.equal(one.generate(IDS, **settings), tokens)


@torch.no_grad()
def test_another_base_is_as_in_its_own_code() -> None:
    one = model("v3")
    one.config.rope_parameters["rope_theta"] = 300.0
    other = type(one)(one.config).eval()
    other.load_state_dict(one.state_dict())
    expected = other(IDS).logits
    pe.attach(one, pe.Rotary(24, base=300.0, rotary_dim=8, start=16, layout="interleaved"))
    torch.testing.assert_close(one(IDS).logits, expected, atol=2e-5, rtol=0)


def test_what_its_code_has_taken_apart_is_not_turned_later() -> None:
    one = model("v3")
    expected = one(IDS).logits
    turning = {"rotary_dim": 8, "start": 16, "layout": "interleaved"}
    longer = pe.Rotary(24, **turning, scaling=pe.DynamicNTK(2.0, 8))
    for asked, raw_keys in ((None, True), (longer, False)):
        with pytest.raises(UnsupportedError, match="takes pairs of neighbours apart"):
            pe.attach(one, asked, raw_keys=raw_keys)
        assert torch.equal(one(IDS).logits, expected)
