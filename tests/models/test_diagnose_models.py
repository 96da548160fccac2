"""Two models are told apart at the first place that differs, with the cause."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch

import posenc as pe
from posenc.errors import ShapeError, UnsupportedError

transformers = pytest.importorskip("transformers")
SIZES = {
    "vocab_size": 97,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
IDS = torch.randint(1, 97, (2, 40), generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def trusted() -> Any:
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES)).eval()


def with_rope(model: Any, **rope: Any) -> Any:
    config = transformers.LlamaConfig(**SIZES, rope_parameters=rope)
    other = transformers.LlamaForCausalLM(config).eval()
    other.load_state_dict(model.state_dict())
    return other


def in_another_layout(model: Any) -> None:
    for layer in model.model.layers:
        for projection in (layer.self_attn.q_proj, layer.self_attn.k_proj):
            rows = projection.weight.data
            projection.weight.data = pe.convert_layout(
                rows, "half", "interleaved", head_dim=16, dim=0
            )


def seeing_the_future(model: Any) -> None:
    def attention(
        module: Any, q: Any, k: Any, v: Any, mask: Any, **told: Any
    ) -> tuple[torch.Tensor, None]:
        sdpa = torch.nn.functional.scaled_dot_product_attention
        out = sdpa(q, k, v, scale=told["scaling"], enable_gqa=True)
        return out.transpose(1, 2), None

    transformers.AttentionInterface.register("sees_all", attention)
    transformers.AttentionMaskInterface.register("sees_all", transformers.masking_utils.sdpa_mask)
    model.set_attn_implementation("sees_all")


def of_another_scale(model: Any) -> None:
    for layer in model.model.layers:
        layer.self_attn.scaling = 1 / 16


def with_a_changed(name: str) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        model.get_parameter(name).data[5] += 1

    return change


FAULTS = {
    "layout of the weights": (in_another_layout, "layer 0, queries and keys"),
    "causal mask": (seeing_the_future, "layer 0, attention"),
    "scale": (of_another_scale, "layer 0, attention"),
    "not turned": (lambda model: pe.attach(model, pe.ALiBi(4)), "layer 0, queries and keys"),
}


@pytest.mark.parametrize("cause", FAULTS)
def test_a_fault_is_named_with_its_place(trusted: Any, cause: str) -> None:
    break_it, place = FAULTS[cause]
    other = copy.deepcopy(trusted)
    break_it(other)
    diagnosis = pe.diagnose_models(trusted, other, IDS)
    assert (diagnosis.place, diagnosis.cause) == (place, cause)
    assert not diagnosis.agree
    assert f"Likely cause: {cause}" in str(diagnosis)


@pytest.mark.parametrize(
    ("rope", "cause"),
    [
        ({"rope_type": "default", "rope_theta": 5e5}, "base"),
        ({"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}, "linear factor"),
    ],
)
def test_another_rotation_is_named(trusted: Any, rope: dict[str, Any], cause: str) -> None:
    diagnosis = pe.diagnose_models(trusted, with_rope(trusted, **rope), IDS)
    assert (diagnosis.place, diagnosis.cause) == ("layer 0, queries and keys", cause)
    assert diagnosis.weights == ()


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("model.embed_tokens.weight", "embeddings"),
        ("model.layers.1.self_attn.v_proj.weight", "layer 1, values"),
        ("model.layers.1.mlp.up_proj.weight", "layer 1, what it returns"),
        ("model.layers.2.self_attn.q_proj.weight", "layer 2, queries and keys"),
        ("model.layers.2.mlp.up_proj.weight", "the result"),
        ("lm_head.weight", "the result"),
    ],
)
def test_weights_that_differ_are_named(trusted: Any, name: str, place: str) -> None:
    other = copy.deepcopy(trusted)
    with_a_changed(name)(other)
    diagnosis = pe.diagnose_models(trusted, other, IDS)
    assert diagnosis.place == place
    assert diagnosis.weights == (name,)
    assert f"Weights differ: {name}." in str(diagnosis)


def test_what_is_no_number_on_one_side_alone_is_a_difference(trusted: Any) -> None:
    other = copy.deepcopy(trusted)
    other.get_parameter("model.layers.1.mlp.up_proj.weight").data[3, 3] = torch.nan
    for one, two in ((trusted, other), (other, trusted)):
        diagnosis = pe.diagnose_models(one, two, IDS)
        assert diagnosis.place == "layer 1, what it returns"
        assert diagnosis.error == float("inf")
    assert pe.diagnose_models(other, copy.deepcopy(other), IDS).agree


def test_models_that_compute_the_same_agree(trusted: Any) -> None:
    other = copy.deepcopy(trusted)
    pe.attach(other)
    assert pe.diagnose_models(trusted, other, IDS).agree
    other.set_attn_implementation("eager")
    diagnosis = pe.diagnose_models(trusted, other, IDS)
    assert diagnosis.agree
    assert diagnosis.cause == "none"
    assert 0 < diagnosis.error < diagnosis.allowed
    # Nothing of the look at it is left.
    assert other.config._attn_implementation == "eager"


def test_padding_and_positions_reach_both(trusted: Any) -> None:
    mask = torch.ones_like(IDS)
    mask[0, :7] = 0
    other = copy.deepcopy(trusted)
    pe.attach(other)
    ids = (mask.cumsum(-1) - 1).clamp(min=0)
    inputs = {"attention_mask": mask, "position_ids": ids}
    # Rows of padding are zero with posenc, and "eager" gives them an average of all values.
    trusted_eager = copy.deepcopy(trusted)
    trusted_eager.set_attn_implementation("eager")
    assert pe.diagnose_models(trusted_eager, other, IDS, **inputs).agree
    pe.attach(other, pe.Rotary(16, base=500.0))
    assert pe.diagnose_models(trusted_eager, other, IDS, **inputs).cause == "base"


def test_rounding_to_bfloat16_is_none(trusted: Any) -> None:
    other = copy.deepcopy(trusted).to(torch.bfloat16)
    diagnosis = pe.diagnose_models(trusted, other, IDS)
    assert diagnosis.agree
    assert not pe.diagnose_models(trusted, other, IDS, tolerance=1e-4).agree


def test_an_encoder_is_looked_into_too() -> None:
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=97,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
    )
    model = transformers.BertModel(config).eval()
    other = copy.deepcopy(model)
    other.embeddings.position_embeddings.weight.data[3, 7] += 1
    diagnosis = pe.diagnose_models(model, other, IDS)
    assert diagnosis.place == "embeddings"
    assert diagnosis.weights == ("embeddings.position_embeddings.weight",)


def that_sees(layers: int) -> tuple[Any, dict[str, Any]]:
    """A Llama behind a tower of patches, and a text with an image for it."""
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4}
    seen = {"model_type": "pixtral", "image_size": 16, "patch_size": 4, "head_dim": 8, **sizes}
    config = transformers.LlavaConfig(
        text_config={"model_type": "llama", **SIZES, **sizes, "num_key_value_heads": 4},
        vision_config={**seen, "num_hidden_layers": layers},
        image_token_index=96,
        vision_feature_layer=-1,
        vision_feature_select_strategy="full",
    )
    torch.manual_seed(0)
    model = transformers.LlavaForConditionalGeneration(config).eval()
    pixels = torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    ids = IDS[:1].clamp(max=95).index_fill(1, torch.arange(4, 20), 96)
    told = {"pixel_values": pixels, "image_sizes": torch.tensor([[16, 16]])}
    return model, {"ids": ids, **told}


@pytest.mark.parametrize("layers", [2, 3])
def test_a_tower_that_sees_is_not_taken_for_the_text(layers: int) -> None:
    """As many layers as the text's or fewer, and numbers of their own."""
    model, pictured = that_sees(layers)
    other = copy.deepcopy(model)
    projection = other.model.language_model.layers[1].self_attn.v_proj
    projection.weight.data[0] += 1
    plain: dict[str, Any] = {"ids": IDS.clamp(max=95)}
    for told in (plain, pictured):
        assert pe.diagnose_models(model, copy.deepcopy(model), **told).agree
        assert pe.diagnose_models(model, other, **told).place == "layer 1, values"
    blurred = copy.deepcopy(model)
    blurred.model.vision_tower.transformer.layers[0].attention.v_proj.weight.data[0] += 1
    assert pe.diagnose_models(model, blurred, **pictured).place == "embeddings"


def test_each_part_attends_as_it_does_and_goes_on_so() -> None:
    model, pictured = that_sees(2)
    other = copy.deepcopy(model)
    seeing_the_future(other.model.language_model)
    parts = {"": "sdpa", "vision_config": "eager", "text_config": "sees_all"}
    other.set_attn_implementation(parts)
    assert pe.diagnose_models(model, other, **pictured).place == "layer 0, attention"
    for name, own in parts.items():
        part = getattr(other.config, name) if name else other.config
        assert part._attn_implementation == own


def test_an_attention_function_without_a_mask_is_found_out(trusted: Any) -> None:
    other = copy.deepcopy(trusted)
    seeing_the_future(other)
    function = transformers.AttentionInterface._global_mapping["sees_all"]
    transformers.AttentionInterface.register("forgot_its_mask", function)
    other.set_attn_implementation("forgot_its_mask")
    diagnosis = pe.diagnose_models(trusted, other, IDS)
    assert (diagnosis.place, diagnosis.cause) == ("layer 0, attention", "causal mask")


def test_models_of_other_sizes_are_refused(trusted: Any) -> None:
    small = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**{**SIZES, "num_hidden_layers": 2})
    )
    with pytest.raises(ShapeError, match="3 layers and 2"):
        pe.diagnose_models(trusted, small, IDS)
    narrow = transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**SIZES, "hidden_size": 32}))
    with pytest.raises(ShapeError, match="one architecture"):
        pe.diagnose_models(trusted, narrow, IDS)


def test_a_model_without_layers_is_refused(trusted: Any) -> None:
    bare = torch.nn.Linear(2, 2)
    bare.config = trusted.config
    with pytest.raises(UnsupportedError, match="no list of 3 layers"):
        pe.diagnose_models(bare, trusted, IDS)
