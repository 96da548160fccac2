"""Small configurations, and the faults that the doctor is to find in them."""

from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parents[1] / "models" / "facts"
FACTS = {path.stem: path for path in sorted(_FOLDER.glob("*.json"))}
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
DYNAMIC = {"rope_type": "dynamic", "factor": 8.0}
# Of a dynamic scaling this is where it begins, and the file says elsewhere how far it reads.
BEGINS = {"max_position_embeddings": 8192, "model_max_length": 65_536}
PLAIN = {"rope_type": "default", "rope_theta": 10_000.0}
LISTS = {"short_factor": [1.0] * 32, "long_factor": [2.0] * 32}
LONG_ROPE = {
    "rope_type": "longrope",
    "factor": 8.0,
    "original_max_position_embeddings": 8192,
    **LISTS,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 4096,
}


def nested(**settings: Any) -> dict[str, Any]:
    rope = {"rope_theta": 1e6, **settings}
    return GEMMA | {"rope_parameters": {"full_attention": rope, "sliding_attention": PLAIN}}


def scaled(**settings: Any) -> dict[str, Any]:
    return LLAMA | {"max_position_embeddings": 65_536, "rope_scaling": settings}


LONG = scaled(**LONG_ROPE)
SLIDING = LLAMA | {
    "sliding_window": 512,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
}
# rule, engine (None: the file itself), a file that has it, how grave it is.
DUAL_CHUNK = LLAMA | {
    "model_type": "qwen2",
    "dual_chunk_attention_config": {"chunk_size": 1024, "local_size": 64},
}
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
        nested(rope_type="dynamic", factor=2.0),
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
    "phi3": ("long-rope-only", "transformers", scaled(**YARN) | {"model_type": "phi3"}, "error"),
    "base": (
        "older-keys",
        None,
        {name: x for name, x in LLAMA.items() if name != "rope_theta"}
        | {"rope_parameters": {"rope_type": "default", "rope_theta": 500_000.0}},
        "warning",
    ),
    "gain": ("yarn-gain", "vllm", scaled(**YARN, attention_factor=1.0), "error"),
    "gain, SGLang": ("yarn-gain", "sglang", scaled(**YARN, attention_factor=1.0), "error"),
    "long gain": ("long-rope-gain", "vllm", scaled(**LONG_ROPE, attention_factor=2.0), "error"),
    "long gain, SGLang": (
        "long-rope-gain",
        "sglang",
        scaled(**LONG_ROPE, attention_factor=2.0),
        "error",
    ),
    "temperature": (
        "temperature-dropped",
        "vllm",
        scaled(**YARN, llama_4_scaling_beta=0.1) | {"model_type": "ministral3"},
        "error",
    ),
    "dual chunk": ("dual-chunk-dropped", "transformers", DUAL_CHUNK, "error"),
    "dual chunk, vLLM": ("dual-chunk-dropped", "vllm", DUAL_CHUNK, "error"),
    "sections": (
        "sections-of-dimensions",
        "transformers",
        LLAMA
        | {"model_type": "hunyuan_vl", "rope_theta": 10_000.0}
        | {"rope_scaling": {"type": "xdrope", "alpha": 1000.0, "xdrope_section": [8] * 4}},
        "error",
    ),
    "by layer": ("differs-by-layer", None, nested(rope_type="linear", factor=8.0), "note"),
    "long": (
        "depends-on-length",
        None,
        LONG,
        "warning",
    ),
    "dynamic": ("no-dynamic", "llama.cpp", scaled(**DYNAMIC) | BEGINS, "error"),
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
    "no window twice": (
        "said-twice",
        None,
        SLIDING | {"model_type": "qwen2", "use_sliding_window": False},
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
    "unsaid base": (
        "unsaid-base",
        "transformers",
        {name: x for name, x in LLAMA.items() if name != "rope_theta"} | {"model_type": "exaone"},
        "error",
    ),
    "llama3": ("llama3-length", "llama.cpp", scaled(**LLAMA3), "error"),
    "truncate, llama.cpp": (
        "yarn-truncate",
        "llama.cpp",
        scaled(**YARN, truncate=False),
        "error",
    ),
    "truncate, mlx": ("yarn-truncate", "mlx", scaled(**YARN, truncate=False), "error"),
    "long alone": ("long-rope-long-alone", "mlx", LONG, "error"),
    "unknown, mlx": ("unknown-type", "mlx", scaled(**DYNAMIC), "error"),
    "mlx": (
        "scaling-dropped",
        "mlx",
        LLAMA | {"model_type": "qwen3", "rope_parameters": {**YARN, "rope_theta": 500_000.0}},
        "error",
    ),
}
