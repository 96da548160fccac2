"""What the doctor finds, and what it leaves alone."""

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from posenc.errors import ConfigError, SettingError, UnknownNameError
from posenc.models.doctor import examine
from posenc.models.doctor.finding import Finding
from posenc.models.spellings import merged

FACTS = {path.stem: path for path in sorted(Path(__file__).with_name("facts").glob("*.json"))}
LLAMA = {
    "model_type": "llama",
    "hidden_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "max_position_embeddings": 8192,
    "rope_theta": 500_000.0,
}
GEMMA = {
    "model_type": "gemma3_text",
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "hidden_size": 256,
    "head_dim": 64,
    "sliding_window": 512,
    "max_position_embeddings": 65_536,
}
YARN = {
    "rope_type": "yarn",
    "factor": 16.0,
    "original_max_position_embeddings": 4096,
}
DYNAMIC = {"rope_type": "dynamic", "factor": 8.0, "original_max_position_embeddings": 8192}
PLAIN = {"rope_type": "default", "rope_theta": 10_000.0}
LISTS = {"short_factor": [1.0] * 32, "long_factor": [2.0] * 32}


def nested(**settings: Any) -> dict[str, Any]:
    rope = {"rope_theta": 1e6, **settings}
    return GEMMA | {"rope_parameters": {"full_attention": rope, "sliding_attention": PLAIN}}


def scaled(**settings: Any) -> dict[str, Any]:
    return LLAMA | {"max_position_embeddings": 65_536, "rope_scaling": settings}


def finding(config: dict[str, Any], rule: str, **options: Any) -> Finding | None:
    findings = [x for x in examine(config, **options).findings if x.rule == rule]
    assert len(findings) <= 1
    return findings[0] if findings else None


LONG = scaled(
    rope_type="longrope",
    factor=8.0,
    short_factor=[1.0] * 32,
    long_factor=[2.0] * 32,
    original_max_position_embeddings=8192,
)
SLIDING = LLAMA | {
    "sliding_window": 512,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
}
# rule, engine (None: the file itself), a file that has it, how grave it is.
SICK: dict[str, tuple[str, str | None, dict[str, Any], str]] = {
    "D1": ("yarn-truncate", "transformers", nested(**YARN, truncate=False), "error"),
    "D2": ("partial-ignored", "transformers", LLAMA | {"partial_rotary_factor": 0.5}, "error"),
    "D2, scaled": (
        "partial-crashes",
        "transformers",
        scaled(rope_type="linear", factor=8.0) | {"partial_rotary_factor": 0.5},
        "error",
    ),
    "D3": ("bfloat16-frequencies", None, LLAMA, "note"),
    "D4": (
        "nested-dynamic",
        "transformers",
        nested(rope_type="dynamic", factor=2.0, original_max_position_embeddings=4096),
        "note",
    ),
    "D5": ("unknown-type", "transformers", scaled(type="ntk", factor=8.0), "error"),
    "D5, by layer": (
        "unknown-type",
        "transformers",
        nested(type="su", factor=8.0, **LISTS, original_max_position_embeddings=8192),
        "error",
    ),
    "D5, beside another": (
        "unknown-type",
        "transformers",
        LLAMA
        | {"rope_parameters": {"rope_type": "default", "rope_theta": 500_000.0}}
        | {"rope_scaling": {"type": "ntk", "factor": 8.0}},
        "error",
    ),
    "base": (
        "older-keys",
        None,
        {name: x for name, x in LLAMA.items() if name != "rope_theta"}
        | {"rope_parameters": {"rope_type": "default", "rope_theta": 500_000.0}},
        "warning",
    ),
    "gain": ("yarn-gain", "vllm", scaled(**YARN, attention_factor=1.0), "error"),
    "gain, SGLang": ("yarn-gain", "sglang", scaled(**YARN, attention_factor=1.0), "error"),
    "long gain": (
        "long-rope-gain",
        "vllm",
        scaled(
            rope_type="longrope",
            factor=8.0,
            short_factor=[1.0] * 32,
            long_factor=[2.0] * 32,
            original_max_position_embeddings=8192,
            attention_factor=2.0,
        ),
        "error",
    ),
    "by layer": ("differs-by-layer", None, nested(rope_type="linear", factor=8.0), "note"),
    "long": (
        "depends-on-length",
        None,
        LONG,
        "warning",
    ),
    "dynamic": ("no-dynamic", "llama.cpp", scaled(**DYNAMIC), "error"),
    "short": (
        "short-stretch",
        None,
        scaled(rope_type="linear", factor=2.0, original_max_position_embeddings=8192)
        | {"rope_scaling": {**YARN, "factor": 2.0}},
        "warning",
    ),
    "twice": (
        "said-twice",
        None,
        scaled(rope_type="linear", factor=2.0)
        | {"rope_parameters": {"rope_type": "default", "rope_theta": 500_000.0}},
        "error",
    ),
    "unread": ("unread-keys", None, LLAMA | {"dual_chunk_attention_config": {"a": 1}}, "warning"),
    "short alone": (
        "long-rope-short-alone",
        "transformers",
        LONG | {"model_type": "phimoe"},
        "error",
    ),
    "layer types": (
        "layer-types-ignored",
        "transformers",
        SLIDING | {"model_type": "mistral"},
        "error",
    ),
    "pattern": (
        "pattern-fails",
        "transformers",
        LLAMA | {"model_type": "exaone4", "sliding_window": 512, "sliding_window_pattern": "LLLG"},
        "error",
    ),
    "sliding base": (
        "sliding-base",
        "transformers",
        LLAMA | {"model_type": "olmo3", "sliding_window": 512, "rope_theta": 1e6},
        "error",
    ),
    "mlx": (
        "scaling-dropped",
        "mlx",
        LLAMA | {"model_type": "qwen3", "rope_parameters": {**YARN, "rope_theta": 500_000.0}},
        "error",
    ),
}


@pytest.mark.parametrize("name", SICK)
def test_a_fault_is_found_with_its_number_and_its_mend(name: str) -> None:
    rule, engine, config, weight = SICK[name]
    config = {key: x for key, x in config.items() if x is not None}
    result = finding(config, rule, engines=[engine] if engine else [])
    assert result is not None
    assert (result.weight, result.engine) == (weight, engine)
    if result.patch:
        mended = finding(merged(config, result.patch), rule, engines=[engine] if engine else [])
        assert mended is None


@pytest.mark.parametrize("engine", ["transformers", "vllm", "sglang", "llama.cpp", "mlx"])
def test_a_sound_file_is_left_alone(engine: str) -> None:
    config = LLAMA | {"rope_theta": 10_000.0, "max_position_embeddings": 512}
    assert examine(config, engines=[engine]).findings == ()


def test_a_window_bounds_how_far_an_error_reaches() -> None:
    """Tokens that never meet do not mind by how much their angles are off."""
    far = finding(LLAMA, "bfloat16-frequencies", target_length=65_536, engines=[])
    near = finding(
        LLAMA | {"model_type": "mistral", "sliding_window": 64},
        "bfloat16-frequencies",
        target_length=65_536,
        engines=[],
    )
    assert far is not None
    assert near is None


def test_a_target_beyond_the_file_is_judged() -> None:
    beyond = finding(LLAMA, "beyond-training", target_length=32_768, engines=[])
    assert beyond is not None
    assert beyond.numbers["trained"] == 8192
    assert finding(LLAMA, "beyond-training", engines=[]) is None
    bert = json.loads(FACTS["bert-base-uncased"].read_text("utf-8"))["config"]
    short = finding(bert, "short-table", target_length=513, engines=[])
    assert short is not None
    assert short.weight == "error"
    assert finding(bert, "short-table", target_length=512, engines=[]) is None


@pytest.mark.parametrize("name", FACTS)
def test_every_published_file_is_examined(name: str) -> None:
    config = json.loads(FACTS[name].read_text("utf-8"))["config"]
    examination = examine(config)
    for result in examination.findings:
        sentences = [words.format(**result.numbers) for words in result.words]
        assert all(sentences)
        assert result.effect is None or math.isfinite(result.effect.angle + result.effect.gain)


def test_wrong_calls_are_told() -> None:
    with pytest.raises(UnknownNameError, match="engine is called 'vlm'"):
        examine(LLAMA, engines=["vlm"])
    with pytest.raises(SettingError, match="at least 1"):
        examine(LLAMA, target_length=0)
    with pytest.raises(ConfigError, match="num_hidden_layers"):
        examine(LLAMA | {"num_hidden_layers": 10**9})


def test_neither_torch_nor_numpy_is_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(LLAMA))
    program = (
        "import sys; from posenc.models.doctor import examine; examine(sys.argv[1]); "
        "assert not {'torch', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program, str(file)], check=True)
