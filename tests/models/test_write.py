"""Configurations for other engines: what is written is read back, and what is lost is told."""

import json
import math
import shlex
from pathlib import Path
from typing import Any

import pytest

from posenc.errors import UnknownNameError
from posenc.models.angles import compare, frequencies, gain
from posenc.models.read import read
from posenc.models.spec import EncodingSpec, ModelSpec, ScalingSpec
from posenc.models.spellings import SPELLINGS, merged, text
from posenc.models.write import TARGETS, write
from posenc.models.write.rope import carrier, rope_parameters
from tests.support.doctor_cases import FACTS, LLAMA, YARN, scaled

# What does not travel exactly, by file and target; every other file does.
WHOLE_CONFIGS = ("hf4", "hf5", "mlx")
LOST: dict[tuple[str, str], tuple[str, str]] = {
    # Its scaling is its own.
    **{("qwen-7b", target): ("scaling", "impossible") for target in WHOLE_CONFIGS},
    # What the keys of transformers 4 have no room for.
    **{
        (name, "hf4"): ("layer_types", "impossible") for name in FACTS if name.startswith("gemma-4")
    },
    # Their code reads keys of its own, and none of transformers'.
    **{
        (name, target): ("rotation", "approximate")
        for name in ("glm-4-9b-chat", "glm-4-9b-chat-1m")
        for target in WHOLE_CONFIGS
    },
    ("deepseek-v4-flash", "hf4"): ("rotation", "approximate"),
    ("deepseek-v4-flash", "hf5"): ("rotation", "impossible"),
    ("deepseek-v4-flash", "mlx"): ("rotation", "impossible"),
    # What mlx-lm does not read, wherever it stands.
    ("gpt-oss-20b", "mlx"): ("truncate", "approximate"),
    ("gpt-oss-120b", "mlx"): ("truncate", "approximate"),
    **{
        (f"phi-{name}-instruct", "mlx"): ("short_factor", "approximate")
        for name in ("3-mini-128k", "3-vision-128k", "3.5-mini", "3.5-moe", "4-mini")
    },
}
# What transformers itself takes otherwise, however it is spelled.
UNREAD = {
    "exaone-4.0-1.2b": ("sliding_window_pattern", "impossible"),
    "exaone-4.0-32b": ("sliding_window_pattern", "impossible"),
    "ministral-8b-instruct-2410": ("layer_types", "approximate"),
    "phi-3.5-moe-instruct": ("long_factor", "approximate"),
    "qwen2.5-7b-instruct-1m": ("dual_chunk_attention_config", "approximate"),
}


def config(name: str) -> dict[str, Any]:
    return json.loads(FACTS[name].read_text("utf-8"))["config"]


@pytest.mark.parametrize("target", WHOLE_CONFIGS)
@pytest.mark.parametrize("name", FACTS)
def test_a_published_file_comes_back(name: str, target: str) -> None:
    """Through either spelling of transformers, or with a line that says what does not."""
    written, spec = write(config(name), target), read(config(name))
    lost = LOST.get((name, target))
    told = [(line.about, line.verdict) for line in written.lines if line.verdict != "exact"]
    unread = UNREAD.get(name) if target == "hf5" else None
    assert told == [x for x in (lost, unread) if x is not None]
    # What an engine makes of a file is another question than what the file says.
    if lost is None or (target == "mlx" and lost[0] in ("truncate", "short_factor")):
        assert written.config is not None
        same_positions(spec, read(written.config))
    elif lost[1] == "impossible":
        assert written.config is None


def same_positions(spec: ModelSpec, other: ModelSpec) -> None:
    """A base that is written as another number may differ in its last digit."""
    effect = compare(spec, other, spec.main.trained_length or 8192)
    if effect is not None:
        assert effect.angle < 1e-6
        assert effect.gain == pytest.approx(1.0, abs=1e-9)
        assert not effect.others


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("name", [name for name in FACTS if (name, "hf5") not in LOST])
def test_flags_say_the_rotation_of_a_published_file(name: str, engine: str) -> None:
    """Their rope_parameters, in a file that has no other keys of it, mean what the file meant."""
    values, spec = config(name), read(config(name))
    flags = write(values, engine).flags
    if not any(layer and layer.rotary for layer in spec.layers):
        assert "{" not in " ".join(flags)
        return
    inner = text(values)
    for key in SPELLINGS:
        inner.pop(key, None)
    same_positions(spec, read(merged(values, json.loads(flags[1]))))


def test_keys_of_one_spelling_do_not_stay_beside_the_other() -> None:
    newer = write(scaled(**YARN), "hf5").config
    assert newer is not None
    assert not {"rope_theta", "rope_scaling"} & set(newer)
    assert newer["rope_parameters"] == {**YARN, "rope_theta": 500_000.0}
    older = write(newer, "hf4").config
    assert older == scaled(**YARN)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_gain_is_given_by_both_names(engine: str) -> None:
    """Each of two readers takes one of them and ignores the other."""
    written = write(scaled(**YARN, attention_factor=1.0), engine)
    rope = json.loads(written.flags[1])["rope_parameters"]
    assert rope["attention_factor"] == 1.0
    assert rope["attn_factor"] * (0.1 * math.log(16.0) + 1) == pytest.approx(1.0)
    assert written.flags[2:] == (
        {"vllm": "--max-model-len", "sglang": "--context-length"}[engine],
        "65536",
    )


def test_flags_of_llama_cpp() -> None:
    flags = write(scaled(**YARN), "llama.cpp").flags
    assert shlex.join(flags) == (
        "--ctx-size 65536 --rope-freq-base 500000.0 --rope-scaling yarn --rope-scale 16.0 "
        "--yarn-orig-ctx 4096 --yarn-attn-factor 1.0"
    )
    llama3 = write(config("llama-3.1-8b"), "llama.cpp")
    assert {line.verdict for line in llama3.lines} == {"exact", "impossible"}


def test_a_scaling_travels_to_gguf_as_divisors() -> None:
    written = write(config("llama-3.1-8b"), "gguf")
    divided = written.tensors["rope_freqs.weight"]
    rope = read(config("llama-3.1-8b")).layers[0].rotary
    assert rope is not None
    plain = [500_000.0 ** (-2 * i / 128) for i in range(64)]
    waves = [wave / by for wave, by in zip(plain, divided, strict=True)]
    assert waves == pytest.approx(frequencies(rope, 1)[:64])
    dynamic = scaled(rope_type="dynamic", factor=8.0)
    assert "impossible" in {line.verdict for line in write(dynamic, "gguf").lines}


STATIC = [
    ScalingSpec("Linear", {"factor": 4.0}),
    ScalingSpec("NTK", {"factor": 4.0}),
    ScalingSpec("YaRN", {"factor": 16.0, "original_length": 4096}),
    ScalingSpec("YaRN", {"factor": 16.0, "original_length": 4096, "ramp": "paper"}),
    ScalingSpec(
        "Llama3",
        {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_length": 8192},
    ),
]
CHANGING = [
    ScalingSpec("DynamicNTK", {"factor": 4.0, "original_length": 8192}),
    ScalingSpec(
        "LongRoPE",
        {
            "factor": 4.0,
            "original_length": 8192,
            "short": (1.0,) * 32,
            "long": tuple(1.0 + i for i in range(32)),
            "attention_factor": 1.5,
        },
    ),
    ScalingSpec("Proportional", {"fraction": 0.25}),
    ScalingSpec(
        "YaRN",
        {
            "factor": 4.0,
            "original_length": 4096,
            "beta_fast": 16.0,
            "truncate": False,
            "mscale": 0.7,
            "mscale_all_dim": 1.0,
        },
    ),
]


@pytest.mark.parametrize("scaling", STATIC, ids=lambda scaling: scaling.name)
def test_any_static_table_travels_as_long_rope(scaling: ScalingSpec) -> None:
    spec = EncodingSpec("rotary", {"dim": 64, "base": 10_000.0, "scaling": scaling})
    rope = {"rope_theta": 10_000.0, **carrier(spec)}
    same_rotation(spec, rope)


@pytest.mark.parametrize("scaling", [*STATIC, *CHANGING], ids=lambda scaling: scaling.name)
def test_a_scaling_is_said_in_the_words_of_transformers(scaling: ScalingSpec) -> None:
    spec = EncodingSpec("rotary", {"dim": 64, "base": 10_000.0, "scaling": scaling})
    same_rotation(spec, rope_parameters(spec))


def same_rotation(spec: EncodingSpec, rope: dict[str, Any]) -> None:
    """What is read of these rope_parameters turns alike at every length, with the same gain."""
    plain = {key: value for key, value in LLAMA.items() if key != "rope_theta"}
    layer = read(plain | {"rope_parameters": rope}).layers[0]
    assert layer is not None
    assert layer.rotary is not None
    for length in (1, 8192, 8193, 100_000):
        assert frequencies(layer.rotary, length) == pytest.approx(frequencies(spec, length))
    assert gain(layer.rotary) == pytest.approx(gain(spec))


@pytest.mark.parametrize("target", TARGETS)
def test_a_key_that_the_code_never_asks_for_may_hold_anything(target: str) -> None:
    values = config("dinov3-vits16-pretrain-lvd1689m")
    assert write({**values, "rope_scaling": 0.5}, target).lines == write(values, target).lines


def test_an_unknown_target_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'vllm'"):
        write(LLAMA, "vlm")


@pytest.mark.parametrize("target", TARGETS)
def test_parts_and_other_keys_stay(target: str, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config("gemma-3-4b-it")))
    written = write(tmp_path, target)
    assert {line.verdict for line in written.lines} <= {"exact", "impossible"}
    assert (written.config is not None) == (target in WHOLE_CONFIGS)
    if written.config is not None:
        assert written.config["vision_config"] == config("gemma-3-4b-it")["vision_config"]
        assert text(dict(written.config))["hidden_size"] == 2560


def test_a_length_that_a_dynamic_scaling_does_not_ask_for_is_told_and_not_written() -> None:
    values = scaled(rope_type="dynamic", factor=8.0, original_max_position_embeddings=8192)
    assert read(values).unread == ("rope_scaling.original_max_position_embeddings",)
    config = write(values, "hf5").config
    assert config is not None
    assert text(dict(config))["rope_parameters"].keys() == {"rope_type", "rope_theta", "factor"}


def test_what_transformers_does_not_load_is_told() -> None:
    """Its phi3 takes yarn for longrope, and does not find its factors."""
    values = scaled(rope_type="yarn", factor=8.0, original_max_position_embeddings=8192)
    lines = write(values | {"model_type": "phi3"}, "hf5").lines
    assert ("rope_type", "impossible") in [(line.about, line.verdict) for line in lines]
