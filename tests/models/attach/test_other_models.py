"""Model types without a Family of their own: attached models compute and decode what they did."""

from typing import Any

import pytest
import torch

import posenc as pe
from posenc.errors import CacheError, UnsupportedError
from posenc.models.attach.caches import PosencCache
from tests.support.families import SIZES
from tests.support.forwards import assert_same, decoded, left_padding, logits, text
from tests.support.published import Published

transformers = pytest.importorskip("transformers")
EXPERTS = {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
LATENT = {"kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16}
LATENT |= {"v_head_dim": 16, "num_key_value_heads": 4}
LOOPED = {"num_hidden_layers": 4, "sliding_window": 6, "n_input_layers": 1, "n_output_layers": 1}
STRETCHED = {"rope_type": "llama3", "rope_theta": 10_000.0, "factor": 8.0, "low_freq_factor": 1.0}
STRETCHED |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 16}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "apertus 1.5": ("apertus1p5_text", {"rope_parameters": STRETCHED}),
    "sarvam moe": ("sarvam_moe", EXPERTS),
    "sarvam mla": ("sarvam_mla", {**EXPERTS, **LATENT}),
    "youtu": ("youtu", LATENT),
    "arcee": ("arcee", {}),
    "olmoe": ("olmoe", EXPERTS),
    "jais 2": ("jais2", {}),
    "flex olmo": ("flex_olmo", EXPERTS),
    "bitnet": ("bitnet", {}),
    "granite moe": ("granitemoe", {"attention_multiplier": 0.3}),
    "granite moe, shared": ("granitemoeshared", {"attention_multiplier": 0.3}),
    "minimax m2": ("minimax_m2", {**EXPERTS, "rotary_dim": 4}),
    "solar open": ("solar_open", {**EXPERTS, "first_k_dense_replace": 1}),
    "hy 3": ("hy_v3", EXPERTS),
    "dots 1": (
        "dots1",
        {**EXPERTS, "n_shared_experts": 1, "sliding_window": 6, "max_window_layers": 1},
    ),
    "afmoe": ("afmoe", {**EXPERTS, "sliding_window": 6, "global_attn_every_n_layers": 2}),
    "vaultgemma": ("vaultgemma", {"sliding_window": 6, "query_pre_attn_scalar": 8}),
    "dory": ("dory", LOOPED),
    "dory, keys of the last loop": ("dory", {**LOOPED, "recurrent_kv_cache_mode": "last_loop"}),
}
# Which posenc does not enter, but reads.
LARA = {"num_hidden_layers": 5, "sliding_window": 6, "num_experts": 4, "num_experts_per_tok": 2}
LARA |= {"moe_intermediate_size": 32, "shared_expert_intermediate_size": 32}
LARA |= {f"linear_{side}_head_dim": 8 for side in ("key", "value")}
LARA |= {"linear_num_key_heads": 2, "linear_num_value_heads": 4}
INDEXED = {"index_topk": 4, "index_head_dim": 16, "index_n_heads": 2}


def built(kind: str, settings: dict[str, Any], **how: Any) -> Any:
    sizes = {**SIZES, **settings}
    if "kv_lora_rank" in settings:
        # Derived here, and not asked for.
        del sizes["head_dim"]
    config = transformers.CONFIG_MAPPING[kind](**sizes)
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config, **how)
    with torch.no_grad():
        for parameter in model.parameters():
            # Gains and scales that a model starts at one value would tell nothing.
            if parameter.ndim == 1:
                parameter += 0.2 * torch.randn(parameter.shape)
    return model.eval()


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> Any:
    return built(*MODELS[request.param])


@pytest.mark.filterwarnings("ignore:.*rope_parameters.*")
def test_it_computes_and_decodes_what_it_did(model: Any) -> None:
    ids, settings = text(), {"max_new_tokens": 4, "do_sample": False}
    told = left_padding(ids, [15, 9])
    real = told["attention_mask"].bool()
    cache = transformers.DynamicCache
    steps = [7, 1, 1, 4, 2]

    def all_of_it() -> list[torch.Tensor]:
        return [
            logits(model, ids),
            logits(model, ids, **told)[real],
            decoded(model, ids, cache(config=model.config), steps, **told)[real],
        ]

    expected, tokens = all_of_it(), model.generate(ids, **settings)
    far = logits(model, ids, position_ids=3 * torch.arange(ids.shape[1])[None])
    assert not torch.allclose(far, expected[0], atol=1e-2)
    assert "cos and sin" in str(pe.attach(model))
    for found, before in zip(all_of_it(), expected, strict=True):
        assert_same(found, before)
    assert torch.equal(model.generate(ids, **settings), tokens)


def test_what_scales_dimensions_that_have_turned_is_not_turned_later() -> None:
    model = built(*MODELS["dory"])
    with pytest.raises(UnsupportedError, match="a weight for each dimension of a head behind"):
        pe.attach(model, raw_keys=True)


def test_layers_that_run_several_times_have_no_cache_of_posenc() -> None:
    model = built(*MODELS["dory"])
    pe.attach(model)
    with pytest.raises(CacheError, match="runs layers several times over"):
        PosencCache(model)


def test_laras_layers_that_see_everything_do_not_turn() -> None:
    model = built("lara_mini", LARA)
    given: list[bool] = []
    for layer in model.model.layers:
        if hasattr(layer, "self_attn"):
            layer.self_attn.register_forward_pre_hook(
                lambda _, args, told: given.append(told["position_embeddings"] is not None),
                with_kwargs=True,
            )
    logits(model, text())
    read = pe.read(model.config).layers
    assert given == [layer.rotary is not None for layer in read if layer] == [True, False, True]


def test_no_layer_of_lara_turns_where_none_slides() -> None:
    kinds = ["linear_attention", "full_attention"]
    values = transformers.CONFIG_MAPPING["lara_mini"](num_hidden_layers=2, layer_types=kinds)
    _, full = pe.read(values).layers
    assert full is not None
    assert full.rotary is None


@pytest.mark.parametrize("kind", ["hy_v4", "hy_v4_vl_text"])
def test_heads_of_hy_4_turn_as_its_own_code_turns_them(kind: str) -> None:
    sees = kind == "hy_v4_vl_text"
    rope = {"rope_type": "default", "rope_theta": 500.0}
    rope |= {"mrope_section": [12, 10, 10]} if sees else {}
    values = transformers.CONFIG_MAPPING[kind](rope_parameters=rope).to_dict()
    other, (layer, *_) = Published(values), pe.read(values).layers
    assert layer is not None
    assert layer.rotary is not None
    q, k = torch.randn(2, 1, 1, 7, layer.head_dim, dtype=torch.float64)
    at = torch.arange(7)[None]
    # Three coordinates in the model that sees images, and one in the other.
    places = torch.stack([at, at * at, 3 * at % 5]) if sees else at
    cos, sin = other.rotation()(q, places)
    turned = other.code.apply_rotary_pos_emb(q[..., 192:], k[..., 192:], cos, sin)
    theirs_q, theirs_k = (
        torch.cat([x[..., :192], y], -1) for x, y in zip((q, k), turned, strict=True)
    )
    expected = layer.scale * theirs_q @ theirs_k.mT
    positions = pe.Positions.build(ids=places.movedim(0, -1) if sees else places)
    made = pe.scores(q, k, layer.rotary.build(), positions=positions, scale=layer.scale)
    torch.testing.assert_close(made, expected, atol=1e-5, rtol=0)


def test_what_an_indexer_chooses_is_not_entered() -> None:
    model = built("hy_v4", {**EXPERTS, **LATENT, **INDEXED}, attn_implementation="eager")
    with pytest.raises(UnsupportedError, match="lets an indexer choose"):
        pe.attach(model)
