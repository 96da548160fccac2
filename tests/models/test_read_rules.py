"""Rules that no published file here shows, or that no field of the facts can hold."""

import pytest
import torch

import posenc as pe
from posenc.errors import ConfigError
from posenc.models.read import read
from posenc.models.read.refused import REFUSED
from tests.models.test_read_facts import facts
from tests.support.published import frequencies


def test_su_scales_every_pair_and_not_as_ntk_does() -> None:
    """theta[i] * factor**(-2(i+1)/d), kexue.fm/archives/9706, equation 6."""
    rope = read(facts("gte-multilingual-base")["config"]).layers[0].rotary
    made, gain = frequencies(rope)
    i = torch.arange(32, dtype=torch.float64)
    expected = 20_000.0 ** (-2 * i / 64) * 8.0 ** (-2 * (i + 1) / 64)
    torch.testing.assert_close(made, expected, rtol=1e-12, atol=0)
    assert gain == 1.0
    ntk = pe.Rotary(64, 20_000.0, scaling=pe.NTK(8.0)).frequencies()
    assert not torch.allclose(made, ntk, rtol=0.05)


def test_the_first_falcon_40b_shares_key_heads() -> None:
    values = {"model_type": "RefinedWeb", "hidden_size": 8192, "n_head": 128, "n_layer": 60}
    layer = read({**values, "n_head_kv": 8, "alibi": False}).layers[0]
    assert (layer.heads, layer.key_heads, layer.head_dim) == (128, 8, 64)


def test_a_base_grows_by_the_ratio_of_glm() -> None:
    config = facts("glm-4-9b-chat")["config"]
    assert read(config).layers[0].rotary.settings["base"] == 5_000_000.0
    config["position_encoding_2d"] = True
    with pytest.raises(ConfigError, match="ChatGLM2 or newer"):
        read(config)


@pytest.mark.parametrize(("width", "name"), [(4096, "rotary"), (5120, "alibi")])
def test_baichuan_is_told_by_its_width(width: int, name: str) -> None:
    values = {"model_type": "baichuan", "hidden_size": width, "model_max_length": 4096}
    spec = read({**values, "num_attention_heads": width // 128, "num_hidden_layers": 2})
    assert [x.name for x in spec.layers[0].encodings] == [name]


def test_nomic_stretches_from_the_trained_length() -> None:
    config = {**facts("nomic-embed-text-v1.5")["config"], "rotary_scaling_factor": 2.0}
    spec = read(config)
    assert spec.layers[0].rotary.build().scaling == pe.DynamicNTK(2.0, 2048)
    assert spec.main.original_length == 2048


def test_a_tower_says_which_layers_see_everything() -> None:
    layers = read(facts("qwen2.5-vl-7b-instruct")["config"]).parts["vision"].layers
    whole = [i for i, layer in enumerate(layers) if not layer.beyond]
    assert whole == [7, 15, 23, 31]
    assert layers[0].beyond == ("windows of 112 x 112 pixels",)


def test_every_second_layer_of_swin_shifts_its_windows() -> None:
    layers = read(facts("swin-tiny-patch4-window7-224")["config"]).layers
    shifted = [i for i, layer in enumerate(layers) if len(layer.beyond) == 2]
    # The last stage is one window.
    assert shifted == [1, 3, 5, 7, 9]
    assert layers[1].beyond[1] == "windows are shifted by 3 patches"


def test_pixtral_deals_out_one_spectrum() -> None:
    values = facts("mistral-small-3.1-24b-instruct-2503")["config"]
    rope = read(values).parts["vision"].layers[0].rotary
    every = [10_000.0 ** (-2 * i / 64) for i in range(32)]
    assert rope.settings["frequencies"] == tuple(every[0::2] + every[1::2])
    assert isinstance(rope.build(), pe.AxialRotary)


def test_a_rotation_that_is_not_asked_for_is_not_there() -> None:
    config = facts("granite-4.0-h-350m")["config"]
    assert not any(layer.rotary for layer in read(config).layers if layer)
    turning = read({**config, "position_embedding_type": "rope"})
    assert all(layer.rotary for layer in turning.layers if layer)


def test_null_is_not_silence() -> None:
    """Mistral's code has a window of 4096 where the file has no key, and none where it is null."""
    config = {**facts("mistral-7b-v0.1")["config"]}
    del config["sliding_window"]
    assert read(config).layers[0].window == 4096
    assert read({**config, "sliding_window": None}).layers[0].window is None


def test_an_unknown_key_of_positions_is_named() -> None:
    config = facts("llama-3.1-8b")["config"]
    config["rope_scaling"] |= {"warmth": 2.0}
    spec = read({**config, "rope_wobble": 1.0, "vision_config": None})
    assert spec.unread == ("rope_scaling.warmth", "rope_wobble")


def test_a_part_of_unknown_type_is_named() -> None:
    config = facts("gemma-3-4b-it")["config"]
    config["vision_config"]["model_type"] = "siglop"
    (said,) = read(config).unread
    assert "siglop" in said


def test_sections_of_other_files_build() -> None:
    """ERNIE counts time last; HunYuan-VL has four axes, under a name of its own."""
    ernie = read(facts("ernie-4.5-vl-28b-a3b")["config"]).layers[0].rotary
    assert repr(ernie.build()) == repr(
        pe.MRoPE(128, (20, 22, 22), "space", base=500_000.0, layout="interleaved")
    )
    rope = {"type": "xdrope", "alpha": 1000.0, "factor": 1.0, "xdrope_section": [16, 16, 16, 16]}
    values = {"model_type": "hunyuan_vl", "hidden_size": 1024, "num_attention_heads": 16}
    sizes = {"num_hidden_layers": 2, "head_dim": 128, "max_position_embeddings": 32768}
    hunyuan = read({**values, **sizes, "rope_theta": 10_000.0, "rope_scaling": rope})
    assert repr(hunyuan.layers[0].rotary.build()) == repr(
        pe.MRoPE(128, (16,) * 4, scaling=pe.NTK(1000.0))
    )


@pytest.mark.parametrize("name", ["ernie4_5", "glm4", "helium", "qwen3", "seed_oss"])
def test_heads_are_as_wide_as_the_code_has_them_where_a_file_is_silent(name: str) -> None:
    """Whatever the width of the model by the number of heads."""
    transformers = pytest.importorskip("transformers")
    values = transformers.CONFIG_MAPPING[name]().to_dict()
    expected = values.pop("head_dim")
    values |= {"hidden_size": 8 * 96, "num_attention_heads": 8, "num_key_value_heads": 2}
    layer = read(values).layers[0]
    assert layer is not None
    assert layer.head_dim == expected == transformers.CONFIG_MAPPING[name](**values).head_dim


@pytest.mark.parametrize("name", ["gpt2", "gpt_bigcode"])
@pytest.mark.parametrize(
    "asked", [{}, {"scale_attn_weights": False}, {"scale_attn_by_inverse_layer_idx": True}]
)
def test_scores_are_scaled_as_the_file_says(name: str, asked: dict[str, bool]) -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"n_embd": 32, "n_layer": 3, "n_head": 4, "vocab_size": 97}
    config = transformers.CONFIG_MAPPING[name](**sizes, **asked)
    blocks = transformers.AutoModelForCausalLM.from_config(config).transformer.h
    scales = [layer.scale for layer in read(config).layers if layer is not None]
    assert scales == pytest.approx([block.attn.scaling for block in blocks])


def test_layers_that_run_several_times_say_so() -> None:
    values = {"model_type": "dory", "hidden_size": 2560, "num_attention_heads": 16}
    layers = {"num_hidden_layers": 8, "n_input_layers": 2, "n_output_layers": 2}
    listed = ["sliding_attention", "mlp", "full_attention", "mlp"] * 2
    looped = {**values, **layers, "layer_types": listed, "n_recurrent_loops": 3}
    found = read(looped).layers
    again = [any("runs 3 times over" in x for x in layer.beyond) for layer in found]
    assert again == [False, True, True, False]
    assert [layer.window for layer in found] == [1024, None, 1024, None]
    assert [layer.rotary.settings["base"] for layer in found] == [1e4, 1e7, 1e4, 1e7]
    once = read({**looped, "n_recurrent_loops": 1})
    assert len(once.layers[1].beyond) == 1
    with pytest.raises(ConfigError, match="behind each other kind"):
        read({**looped, "layer_types": listed[1:] + listed[:1]})
    for kinds in (["linear_attention"] * 8, ["full_attention", "mamba"] * 4):
        with pytest.raises(ConfigError, match=r"layer_types is .* each of full_attention"):
            read({**looped, "layer_types": kinds})
    with pytest.raises(ConfigError, match="what is left of 4 layers"):
        read({**looped, "n_recurrent_layers": 8})
    with pytest.raises(ConfigError, match="n_output_layers is 5: at most 3 layers"):
        read({**looped, "n_output_layers": 10})


@pytest.mark.parametrize("kind", REFUSED)
def test_a_model_whose_positions_no_specification_says(kind: str) -> None:
    with pytest.raises(
        ConfigError, match=f"{kind!r}, which is not read: .* a sink that each token"
    ):
        read({"model_type": kind})
