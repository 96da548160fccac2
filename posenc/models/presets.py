"""Published ways of giving layers different positions, as the configurations that say so."""

from typing import Any

# As the checkpoints have it that are named; what is not here is what the model's code takes for
# granted. Numbers of layers and heads are the caller's.
PRESETS: dict[str, dict[str, Any]] = {
    # Llama 4 Scout without the stretching of its release.
    "llama4": {"model_type": "llama4_text", "rope_theta": 500_000.0, "attention_chunk_size": 8192},
    "smollm3": {"model_type": "smollm3", "rope_theta": 5_000_000.0},
    # Command R7B; the layout of RNoPE-SWA.
    "cohere2": {"model_type": "cohere2", "rope_theta": 50_000.0, "sliding_window": 4096},
    # The 4B model.
    "gemma3": {
        "model_type": "gemma3_text",
        "sliding_window": 1024,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
    },
    # The 31B model, whose global layers have wider heads.
    "gemma4": {"model_type": "gemma4_text", "sliding_window": 1024},
    "modernbert": {"model_type": "modernbert", "local_attention": 128},
    # The 20B model.
    "gpt_oss": {
        "model_type": "gpt_oss",
        "rope_theta": 150_000.0,
        "sliding_window": 128,
        "rope_scaling": {
            "rope_type": "yarn",
            "factor": 32.0,
            "original_max_position_embeddings": 4096,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "truncate": False,
        },
    },
}
