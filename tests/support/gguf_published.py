"""What llama.cpp's converter writes for published configurations."""

import json
import math
from pathlib import Path
from typing import Any

from posenc.models.read import read
from posenc.models.spec import ModelSpec
from tests.support.gguf_files import File, llama3_divisors, sizes, write_gguf, yarn

FACTS = Path(__file__).parents[1] / "models" / "facts"


def _bits(pattern: str, count: int) -> tuple[bool, ...]:
    return tuple(pattern[i % len(pattern)] == "1" for i in range(count))


def divisors(name: str, which: str) -> list[float]:
    return json.loads(FACTS.joinpath(f"{name}.json").read_text("utf-8"))["config"]["rope_scaling"][
        f"{which}_factor"
    ]


PHI3 = "phi-3-mini-128k-instruct"
MLA = {
    "attention.head_count_kv": 1,
    "attention.key_length": 576,
    "attention.value_length": 512,
    "attention.key_length_mla": 192,
    "attention.value_length_mla": 128,
    "rope.dimension_count": 64,
}
KEYS = "attention.head_count_kv"
FILES = {
    "smollm2-135m-instruct": File(
        "llama", {**sizes(30, 576, 9, 8192), KEYS: 3, "rope.freq_base": 1e5}
    ),
    "llama-3.1-8b": File(
        "llama",
        {
            **sizes(32, 4096, 32, 131072),
            KEYS: 8,
            "rope.freq_base": 5e5,
            "rope.dimension_count": 128,
        },
        {"rope_freqs.weight": llama3_divisors(8.0, 1.0, 4.0, 5e5, 64)},
    ),
    "qwen2.5-7b-instruct-yarn": File(
        "qwen2", {**sizes(28, 3584, 28, 32768), KEYS: 4, "rope.freq_base": 1e6, **yarn(4.0, 32768)}
    ),
    "gemma-2-9b": File(
        "gemma2",
        {
            **sizes(42, 3584, 16, 8192),
            KEYS: 8,
            "attention.key_length": 256,
            "attention.value_length": 256,
            "attention.sliding_window": 4096,
        },
    ),
    "gemma-3-27b-it": File(
        "gemma3",
        {
            **sizes(62, 5376, 32, 131072),
            KEYS: 16,
            "attention.key_length": 128,
            "attention.value_length": 128,
            "attention.sliding_window": 1024,
            "rope.freq_base": 1e6,
            "rope.scaling.type": "linear",
            "rope.scaling.factor": 8.0,
        },
    ),
    "gemma-4-e4b-it": File(
        "gemma4",
        {
            **sizes(42, 2560, 8, 131072),
            KEYS: (2,) * 42,
            "attention.key_length": 512,
            "attention.value_length": 512,
            "attention.key_length_swa": 256,
            "attention.value_length_swa": 256,
            "attention.sliding_window": 512,
            "attention.sliding_window_pattern": _bits("111110", 42),
            "attention.shared_kv_layers": 18,
            "rope.freq_base": 1e6,
            "rope.freq_base_swa": 1e4,
            "rope.dimension_count": 512,
            "rope.dimension_count_swa": 256,
        },
        {"rope_freqs.weight": [1.0] * 64 + [1e30] * 192},
    ),
    "deepseek-v3": File(
        "deepseek2",
        {
            **sizes(61, 7168, 128, 163840),
            **MLA,
            **yarn(40.0, 4096),
            "rope.freq_base": 1e4,
            "rope.scaling.yarn_log_multiplier": 0.1,
        },
    ),
    "deepseek-v2-lite": File(
        "deepseek2",
        {
            **sizes(27, 2048, 16, 163840),
            **yarn(40.0, 4096),
            KEYS: 16,
            "attention.key_length": 192,
            "attention.value_length": 128,
            "rope.dimension_count": 64,
            "rope.scaling.yarn_log_multiplier": 0.0707,
        },
    ),
    PHI3: File(
        "phi3",
        {
            **sizes(32, 3072, 32, 131072),
            KEYS: 32,
            "rope.freq_base": 1e4,
            "rope.dimension_count": 96,
            "rope.scaling.original_context_length": 4096,
            "rope.scaling.attn_factor": math.sqrt(1 + math.log(32) / math.log(4096)),
        },
        {f"rope_factors_{x}.weight": divisors(PHI3, x) for x in ("short", "long")},
    ),
    "phi-2": File("phi2", {**sizes(32, 2560, 32, 2048), "rope.dimension_count": 32}),
    "command-r7b-12-2024": File(
        "cohere2",
        {
            **sizes(32, 4096, 32, 132096),
            KEYS: 8,
            "attention.key_length": 128,
            "attention.sliding_window": 4096,
            "rope.freq_base": 5e4,
            "rope.scaling.type": "none",
        },
    ),
    "qwen2-vl-7b-instruct": File(
        "qwen2vl",
        {
            **sizes(28, 3584, 28, 32768),
            KEYS: 4,
            "rope.freq_base": 1e6,
            "rope.dimension_sections": (16, 24, 24, 0),
        },
    ),
    "qwen3-vl-2b-instruct": File(
        "qwen3vl",
        {
            **sizes(28, 2048, 16, 262144),
            KEYS: 8,
            "attention.key_length": 128,
            "rope.freq_base": 5e6,
            "rope.dimension_sections": (24, 20, 20, 0),
        },
    ),
    "smollm3-3b": File("smollm3", {**sizes(36, 2048, 16, 65536), KEYS: 4, "rope.freq_base": 5e6}),
    "mpt-30b": File("mpt", {**sizes(48, 7168, 64, 8192), "attention.max_alibi_bias": 8.0}),
    "bloom-176b": File("bloom", sizes(70, 14336, 112, 2048)),
    "gpt2": File("gpt2", sizes(12, 768, 12, 1024)),
    "gpt-neox-20b": File("gptneox", {**sizes(44, 6144, 64, 2048), "rope.dimension_count": 24}),
    "olmo-3-7b-instruct": File(
        "olmo2",
        {
            **sizes(32, 4096, 32, 65536),
            KEYS: 32,
            "attention.sliding_window": 4096,
            "attention.sliding_window_pattern": _bits("1110", 32),
            "rope.freq_base": 5e5,
            **yarn(8.0, 8192),
        },
    ),
    "lfm2-350m": File(
        "lfm2",
        {
            **sizes(16, 1024, 16, 128000),
            "rope.freq_base": 1e6,
            KEYS: tuple(8 if i in (2, 5, 8, 10, 12, 14) else 0 for i in range(16)),
        },
    ),
    "baichuan-13b-base": File("baichuan", sizes(40, 5120, 40, 4096)),
    "granite-3.1-8b-base": File(
        "granite",
        {
            **sizes(40, 4096, 32, 131072),
            KEYS: 8,
            "rope.freq_base": 1e7,
            "attention.scale": 0.0078125,
        },
    ),
    "granite-4.0-h-350m": File(
        "granitehybrid",
        {
            **sizes(32, 768, 12, 32768),
            "attention.scale": 0.015625,
            "rope.scaling.finetuned": False,
            KEYS: tuple(4 if i in (10, 13, 17, 27) else 0 for i in range(32)),
        },
    ),
    "exaone-4.0-32b": File(
        "exaone4",
        {
            **sizes(64, 5120, 40, 131072),
            KEYS: 8,
            "attention.key_length": 128,
            "rope.freq_base": 1e6,
            "attention.sliding_window": 4096,
        },
        {"rope_freqs.weight": llama3_divisors(16.0, 1.0, 4.0, 1e6, 64)},
    ),
    "glm-4-9b-0414": File(
        "glm4",
        {
            **sizes(40, 4096, 32, 32768),
            KEYS: 2,
            "attention.key_length": 128,
            "rope.dimension_count": 64,
        },
    ),
    "glm-4.5-air": File(
        "glm4moe",
        {
            **sizes(47, 4096, 96, 131072),
            KEYS: 8,
            "attention.key_length": 128,
            "rope.dimension_count": 64,
            "rope.freq_base": 1e6,
            "nextn_predict_layers": 1,
        },
    ),
    "modernbert-base": File(
        "modern-bert",
        {
            **sizes(22, 768, 12, 8192),
            "attention.causal": False,
            "attention.sliding_window": 128,
            "attention.sliding_window_pattern": 3,
            "rope.freq_base": 160_000.0,
            "rope.freq_base_swa": 1e4,
        },
    ),
    "jamba-v0.1": File(
        "jamba",
        {**sizes(32, 4096, 32, 262144), KEYS: tuple(8 if i % 8 == 4 else 0 for i in range(32))},
    ),
    "llama-4-scout-17b-16e-instruct": File(
        "llama4",
        {
            **sizes(48, 5120, 40, 10485760),
            KEYS: 8,
            "attention.key_length": 128,
            "rope.freq_base": 5e5,
        },
        {"rope_freqs.weight": llama3_divisors(16.0, 1.0, 1.0, 5e5, 64)},
    ),
    "ministral-3-3b-reasoning-2512": File(
        "mistral3",
        {
            **sizes(26, 3072, 32, 262144),
            KEYS: 8,
            "attention.key_length": 128,
            "attention.value_length": 128,
            "rope.freq_base": 1e6,
            **yarn(16.0, 16384),
            "rope.scaling.yarn_beta_fast": 32.0,
            "rope.scaling.yarn_beta_slow": 1.0,
            "rope.scaling.yarn_log_multiplier": 1.0,
            "attention.temperature_scale": 0.1,
        },
    ),
    "all-minilm-l6-v2": File("bert", {**sizes(6, 384, 12, 512), "attention.causal": False}),
    "qwen3-next-80b-a3b-instruct": File(
        "qwen3next",
        {
            **sizes(48, 2048, 16, 262144),
            KEYS: 2,
            "attention.key_length": 256,
            "rope.dimension_count": 64,
            "rope.freq_base": 1e7,
        },
    ),
    "starcoder": File("starcoder", {**sizes(40, 6144, 48, 8192), KEYS: 1}),
}


def changed(name: str, folder: Path, tensors: Any = None, **more: Any) -> ModelSpec:
    """A file of those above with other values; None takes a key away."""
    file = FILES[name]
    values = {**file.values, **{key.replace("__", "."): value for key, value in more.items()}}
    values = {key: value for key, value in values.items() if value is not None}
    rows = file.tensors if tensors is None else tensors
    return read(write_gguf(folder / "model.gguf", file.architecture, values, rows))
