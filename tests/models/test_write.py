"""Configurations for other engines: what is written is read back, and what is lost is told."""

import json
import math
import shlex
from pathlib import Path
from typing import Any

import pytest

from posenc.errors import UnknownNameError
from posenc.frequencies import FREQUENCIES
from posenc.models.angles import compare, frequencies
from posenc.models.read import read
from posenc.models.spec import EncodingSpec, ScalingSpec
from posenc.models.spellings import text
from posenc.models.write import TARGETS, write
from posenc.models.write.rope import carrier, divisors, rope_parameters
from tests.models.test_doctor import FACTS, LLAMA, YARN, scaled

# What the keys of transformers 4 have no room for.
NEWER = {name for name in FACTS if name.startswith("gemma-4")}
# Their code reads keys of its own, and none of transformers'.
OWN_KEYS = {"deepseek-v4-flash", "glm-4-9b-chat", "glm-4-9b-chat-1m"}
# Its scaling is its own.
OWN_SCALING = {"qwen-7b"}


def config(name: str) -> dict[str, Any]:
    return json.loads(FACTS[name].read_text("utf-8"))["config"]


@pytest.mark.parametrize("target", ["hf4", "hf5", "mlx"])
@pytest.mark.parametrize("name", FACTS)
def test_a_published_file_comes_back(name: str, target: str) -> None:
    """Through either spelling of transformers, or with a line that says what does not."""
    values = config(name)
    written, spec = write(values, target), read(values)
    if name in OWN_SCALING or (name in NEWER and target == "hf4"):
        assert written.config is None
        assert [line.verdict for line in written.lines] == ["impossible"]
        return
    if name in OWN_KEYS and written.config is None:
        assert [line.verdict for line in written.lines] == ["impossible"]
        return
    assert written.config is not None
    effect = compare(spec, read(written.config), spec.main.trained_length or 8192)
    told = [line for line in written.lines if line.verdict != "exact"]
    if effect is None or (effect.angle < 1e-6 and not effect.others):
        assert {line.about for line in told} <= {"truncate", "short_factor", "rope_type"}
    else:
        assert name in OWN_KEYS
        assert told


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


@pytest.mark.parametrize("scaling", STATIC, ids=lambda scaling: scaling.name)
def test_any_static_table_travels_as_long_rope(scaling: ScalingSpec) -> None:
    spec = EncodingSpec("rotary", {"dim": 64, "base": 10_000.0, "scaling": scaling})
    rope = {"rope_theta": 10_000.0, **carrier(spec)}
    values = LLAMA | {"rope_parameters": rope, "rope_theta": 10_000.0}
    carried = read(values).layers[0]
    assert carried is not None
    assert carried.rotary is not None
    for length in (1, 100_000):
        assert frequencies(carried.rotary, length) == pytest.approx(frequencies(spec, length))
    assert len(divisors(spec)) == 32
    assert rope_parameters(spec)["rope_type"] in ("linear", "default", "yarn", "llama3", "longrope")
    assert scaling.name in FREQUENCIES


def test_an_unknown_target_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'vllm'"):
        write(LLAMA, "vlm")


@pytest.mark.parametrize("target", TARGETS)
def test_parts_and_other_keys_stay(target: str, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config("gemma-3-4b-it")))
    written = write(tmp_path, target)
    if written.config is not None:
        assert written.config["vision_config"] == config("gemma-3-4b-it")["vision_config"]
        assert text(dict(written.config))["hidden_size"] == 2560
    assert written.lines
