"""What is read of a configuration equals what transformers makes of it."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from posenc.errors import ConfigError
from posenc.models.read import read
from posenc.models.read.families import FAMILIES
from posenc.models.read.vision import TOWERS
from posenc.models.spec import EncodingSpec, LayerSpec, PartSpec
from tests.models.test_read_facts import FACTS, facts
from tests.support.published import Published, frequencies, kind_of

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore:.*rope_scaling.*:FutureWarning")

# Files that transformers takes otherwise than they are meant, or refuses, and whose fault it is.
DIFFERENCES = {
    "exaone-4.0-1.2b": "transformers reads a pattern of null as a number, and fails",
    "exaone-4.0-32b": "transformers reads the pattern 'LLLG' as a number, and fails",
    "phi-3.5-moe-instruct": "transformers' phimoe turns by the short factors at every length",
    "mpt-7b-storywriter": "transformers refuses the whole number that the file has for clip_qkv",
    "ministral-8b-instruct-2410": "transformers' mistral does not read layer_types: all slide",
    "hunyuan_v1_dense": "transformers' defaults have no head_dim, and its attention fails",
    "hunyuan_v1_moe": "transformers' defaults have no head_dim, and its attention fails",
    "hunyuan_vl": "transformers' defaults have no head_dim, and its attention fails",
    "hunyuan_vl_text": "transformers' defaults have no head_dim, and its attention fails",
    "ministral": "transformers' defaults have no head_dim, and its attention fails",
    "nemotron": "transformers' defaults have no key heads, and its attention fails",
}
# What is cut from a copy, tells nothing of positions, and transformers cannot do without.
CUT = {"falcon-h1-0.5b-base": {"mamba_d_ssm": 1536}}
# Layers that are named otherwise where they pick among keys, or stand for several.
EVERYTHING = {"indexed_attention", "attention", "hybrid"}
COMPRESSED = {"compressed_sparse_attention", "heavily_compressed_attention"}
STATES = {"linear_attention", "mamba", "conv", "mlp", "moe", "recurrent"}
LENGTHS = (1, 100, 3000, 5000, 9000, 200_000)


def known(name: str) -> dict[str, Any]:
    """A published file, or the defaults of a model type."""
    if name in FACTS:
        return {**facts(name)["config"], **CUT.get(name, {})}
    return transformers.CONFIG_MAPPING[name]().to_dict()


def _in_transformers(name: str) -> bool:
    return facts(name)["config"]["model_type"] in transformers.CONFIG_MAPPING


PUBLISHED = [name for name in FACTS if _in_transformers(name)]
TURNING_TOWERS = {name for name in FAMILIES if name in TOWERS or name.endswith("_vision")}
DEFAULTS = sorted(set(FAMILIES) & set(transformers.CONFIG_MAPPING) - TURNING_TOWERS)
# Sizes that nobody has trained: 96 heads of 42 dimensions, of which 21 would turn.
DEFAULTS.remove("glm4_moe")


def writing(values: dict[str, Any]) -> PartSpec:
    parts = read(values).parts
    return next(iter(parts.values()))


@pytest.mark.parametrize("name", [*PUBLISHED, *DEFAULTS])
def test_all_that_is_read_equals_what_transformers_makes(name: str) -> None:
    if name not in DIFFERENCES:
        compare(known(name))
        return
    values = known(name)
    # The fault is not on this side: the file is read.
    writing(values)
    with pytest.raises((AssertionError, TypeError, ImportError, _refusals())):
        compare(values)


def _refusals() -> type[Exception]:
    from huggingface_hub.errors import StrictDataclassError

    return StrictDataclassError


def compare(values: dict[str, Any]) -> None:
    part, other = writing(values), Published(values)
    names = other.kinds(len(part.layers))
    same_layers(part, names)
    widths = {layer.window for layer in part.layers if layer and layer.window}
    if widths:
        assert widths == {_window(other)}
    same_frequencies(part, other, names)
    same_scales(part, other, names)


def same_layers(part: PartSpec, names: list[str]) -> None:
    assert len(part.layers) == len(names)
    for layer, name in zip(part.layers, names, strict=True):
        if name in STATES:
            assert layer is None
        elif name in COMPRESSED:
            assert kind_of(layer) == "sliding_attention"
        else:
            assert kind_of(layer) == ("full_attention" if name in EVERYTHING else name)


def _window(other: Published) -> int:
    config = other.config
    if config.model_type == "gpt_neo":
        return config.window_size
    # ModernBERT counts one side without the token itself.
    return config.sliding_window + (config.model_type == "modernbert")


def of_each_kind(part: PartSpec, names: list[str]) -> Iterator[tuple[int, str, LayerSpec]]:
    seen = set()
    for i, (layer, name) in enumerate(zip(part.layers, names, strict=True)):
        if layer is not None and (name, layer.rotary is None) not in seen:
            seen.add((name, layer.rotary is None))
            yield i, name, layer


def same_frequencies(part: PartSpec, other: Published, names: list[str]) -> None:
    turning = [(name, x) for _, name, x in of_each_kind(part, names) if x.rotary]
    if not turning:
        return
    module = other.rotation()
    if module is None or hasattr(module, "embed_positions"):
        same_sines(turning[0][1], other, module)
        return
    for name, layer in turning:
        kind = _rotation_of(name, other)
        for length in LENGTHS:
            expected, gain = other.frequencies(module, kind, length)
            made, own = frequencies(layer.rotary, length)
            if _dealt_out(layer.rotary):
                # Dealt out to the axes already, or those of one axis.
                made, expected = made.unique().flip(0), expected.double().unique().flip(0)
                made = made[:: len(made) // len(expected)]
            torch.testing.assert_close(made, expected.double(), rtol=1e-6, atol=0)
            assert own == pytest.approx(gain, rel=1e-6)
    if turning[0][1].rotary.name == "mrope":
        settings, said = turning[0][1].rotary.settings, other.config.rope_parameters
        sections = list(settings["sections"])
        if settings["interleaved"] == "space":
            # ERNIE counts the pairs of time last.
            sections = sections[1:] + sections[:1]
        assert sections == list(
            getattr(module, "mrope_section", said.get("mrope_section", settings["sections"]))
        )


def _dealt_out(spec: EncodingSpec) -> bool:
    return spec.name == "axial" or spec.settings.get("interleaved") == "space"


def _rotation_of(name: str, other: Published) -> str:
    if other.config.model_type == "deepseek_v4":
        return "main" if name == "sliding_attention" else "compress"
    return name


def same_sines(layer: LayerSpec, other: Published, module: Any) -> None:
    """GPT-J and CodeGen have a table of sines, and no frequencies; a module has it since 5.24."""
    made, _ = frequencies(layer.rotary)
    if module is not None:
        table = module.embed_positions
    elif hasattr(other.code, "create_sinusoidal_positions"):
        table = other.code.create_sinusoidal_positions(2, 2 * len(made))
    else:
        raise AssertionError(f"{other.config.model_type} has no table of what turns")
    expected = table[1, : table.shape[1] // 2].double()
    torch.testing.assert_close(made.sin(), expected, rtol=1e-6, atol=1e-9)


def same_scales(part: PartSpec, other: Published, names: list[str]) -> None:
    for i, _, layer in of_each_kind(part, names):
        module = other.attention(i)
        scale = getattr(module, "scaling", None)
        if isinstance(scale, int | float):
            # Falcon-H1 multiplies its keys apart.
            scale *= getattr(module, "key_multiplier", 1.0)
            assert layer.scale == pytest.approx(scale, rel=1e-6)


SMALL = {
    "hidden_size": 512,
    "num_attention_heads": 8,
    "num_hidden_layers": 1,
    "max_position_embeddings": 4096,
}
DIVISORS = {
    name: [1.0 + grown * i for i in range(32)]
    for name, grown in (("short_factor", 0.01), ("long_factor", 0.5))
}
ASKED = {
    "plain": {"rope_type": "default"},
    "linear": {"rope_type": "linear", "factor": 4.0},
    "dynamic": {"rope_type": "dynamic", "factor": 2.0},
    "dynamic from": {"rope_type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 64},
    "yarn": {"rope_type": "yarn", "factor": 8.0},
    "yarn from": {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 2048},
    "yarn of betas": {"rope_type": "yarn", "factor": 8.0, "beta_fast": 16.0, "beta_slow": 2.0},
    "yarn of gains": {"rope_type": "yarn", "factor": 8.0, "mscale": 0.7, "mscale_all_dim": 1.0},
    "yarn of one gain": {"rope_type": "yarn", "factor": 8.0, "mscale": 0.7},
    "yarn of a gain": {"rope_type": "yarn", "factor": 8.0, "attention_factor": 1.5},
    "yarn in part": {"rope_type": "yarn", "factor": 8.0, "truncate": False},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 2048,
    },
    "longrope": {
        "rope_type": "longrope",
        **DIVISORS,
        "factor": 2.0,
        "original_max_position_embeddings": 2048,
    },
    "longrope with a gain": {
        "rope_type": "longrope",
        **DIVISORS,
        "factor": 2.0,
        "attention_factor": 1.25,
        "original_max_position_embeddings": 2048,
    },
}


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("spelling", ["transformers 4", "transformers 5", "type"])
def test_every_scaling_in_every_spelling(asked: str, spelling: str) -> None:
    own = copy.deepcopy(ASKED[asked])
    values: dict[str, Any] = {"model_type": "llama", **SMALL}
    if spelling == "transformers 5":
        values["rope_parameters"] = {**own, "rope_theta": 50_000.0}
    else:
        if spelling == "type":
            own["type"] = own.pop("rope_type")
        values |= {"rope_theta": 50_000.0, "rope_scaling": own}
    compare(values)


def test_the_base_of_an_older_olmo_3_file_reaches_every_layer() -> None:
    """In transformers it reaches the full layers alone, for it is taken out before the others."""
    values = {**known("olmo-3-7b-instruct"), "rope_theta": 1_000_000.0}
    bases = {layer.rotary.settings["base"] for layer in writing(values).layers}
    assert bases == {1_000_000.0}
    theirs = Published(values).config.rope_parameters
    assert {kind: own["rope_theta"] for kind, own in theirs.items()} == {
        "full_attention": 1_000_000.0,
        "sliding_attention": 500_000.0,
    }


# DINOv3 is a tower alone, and read as one above.
SEEING = [
    name
    for name in PUBLISHED
    if "vision" in read(known(name)).parts and "text" in read(known(name)).parts
]


@pytest.mark.parametrize("name", SEEING)
def test_a_tower_turns_as_in_transformers(name: str) -> None:
    values = known(name)
    part, other = read(values).parts["vision"], Published(values, "vision")
    layer = part.layers[0]
    assert other.config.num_hidden_layers == len(part.layers)
    assert other.config.num_attention_heads == layer.heads
    if layer.rotary is None:
        return
    module = other.rotation()
    if not hasattr(module, "inv_freq"):
        angles = module.freqs_ci[1, 0, : layer.head_dim // 4].angle()
        # The first patch but one is in column 2 and row 1.
        expected = angles.double() / 2
    else:
        expected = module.inv_freq.double()
    made = layer.rotary.settings.get("frequencies")
    if made is None:
        plain = {"dim": layer.head_dim // 2, "base": layer.rotary.settings["base"]}
        made, _ = frequencies(type(layer.rotary)("rotary", plain))
    made = torch.as_tensor(made, dtype=torch.float64)
    torch.testing.assert_close(made, expected, rtol=1e-6, atol=0)


def test_a_configuration_of_transformers_is_read_as_its_values_are() -> None:
    config = transformers.LlamaConfig(rope_parameters={"rope_type": "default", "rope_theta": 5e5})
    spec = read(config)
    assert spec.layers == read(config.to_dict()).layers
    assert spec.origin == "LlamaConfig"
    assert spec.layers[0] is not None
    assert spec.layers[0].rotary is not None
    assert spec.layers[0].rotary.settings["base"] == 5e5
    with pytest.raises(ConfigError, match="a path, a folder or an object"):
        read(transformers.LlamaConfig)
