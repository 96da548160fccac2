"""Small random models of transformers, one for each way of telling positions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

import posenc as pe

VOCABULARY = 97
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 128,
    "initializer_range": 0.3,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_BERT = {"attention_probs_dropout_prob": 0.0, "hidden_dropout_prob": 0.0}
_ONE_SIDE = {"num_key_value_heads": 4}
_WINDOWS = {"sliding_window": 6, "layer_types": ["sliding_attention", "full_attention"] * 2}
_SHORT, _LONG = ([1.0 + grown * i for i in range(4)] for grown in (0.1, 0.7))


@dataclass(frozen=True)
class Family:
    """A configuration, and what transformers' own attention can do with it.

    truth is the attention of transformers that computes this model; window is the shortest of its
    layers; causal tells decoders from encoders.
    """

    model_type: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    truth: str = "sdpa"
    window: int | None = None
    causal: bool = True

    def config(self) -> Any:
        from transformers import CONFIG_MAPPING

        values = {**SIZES, **self.settings}
        layers = values["num_hidden_layers"]
        if "layer_types" in values:
            values["layer_types"] = values["layer_types"][:layers]
        return CONFIG_MAPPING[self.model_type](**values)

    def build(self, seed: int = 0) -> Any:
        """The model, in evaluation: the same weights for the same seed."""
        import transformers

        kind = transformers.AutoModelForCausalLM
        if not self.causal:
            kind = transformers.AutoModelForMaskedLM
        torch.manual_seed(seed)
        model = kind.from_config(self.config(), attn_implementation=self.truth)
        with torch.no_grad():
            for parameter in model.parameters():
                # Biases, gains and sinks that a model starts at one value would tell nothing.
                if parameter.ndim == 1:
                    parameter += 0.2 * torch.randn(parameter.shape)
        return model.eval()

    def pair(self, seed: int = 0) -> tuple[Any, Any]:
        """The model twice, the second with posenc under it."""
        theirs, ours = self.build(seed), self.build(seed)
        pe.attach(ours)
        return theirs, ours


def _rope(kind: str, **settings: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10_000.0, **settings}}


FAMILIES = {
    "llama": Family("llama"),
    "llama yarn": Family("llama", _rope("yarn", factor=4.0, original_max_position_embeddings=16)),
    "llama linear": Family("llama", _rope("linear", factor=4.0)),
    "llama 3": Family(
        "llama",
        _rope(
            "llama3",
            factor=8.0,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
            original_max_position_embeddings=16,
        ),
    ),
    "qwen2": Family("qwen2"),
    "qwen3": Family("qwen3"),
    "mistral": Family("mistral", {"sliding_window": 6}, window=6),
    "gemma2": Family(
        "gemma2",
        {**_WINDOWS, "attn_logit_softcapping": 2.0, "query_pre_attn_scalar": 8},
        truth="eager",
        window=6,
    ),
    "gemma3": Family(
        "gemma3_text",
        {
            **_WINDOWS,
            "query_pre_attn_scalar": 8,
            "rope_parameters": {
                "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 10_000.0},
            },
        },
        window=6,
    ),
    "gpt2": Family(
        "gpt2",
        {
            "n_embd": 32,
            "n_layer": 3,
            "n_head": 4,
            "n_positions": 128,
            "resid_pdrop": 0.0,
            "embd_pdrop": 0.0,
            "attn_pdrop": 0.0,
        },
    ),
    "gpt neox": Family("gpt_neox", {"rotary_pct": 0.5, **_ONE_SIDE}),
    "phi3": Family(
        "phi3",
        _rope(
            "longrope",
            short_factor=_SHORT,
            long_factor=_LONG,
            original_max_position_embeddings=64,
        )
        | {"original_max_position_embeddings": 64, "resid_pdrop": 0.0, "embd_pdrop": 0.0},
    ),
    "cohere": Family("cohere", {"logit_scale": 1.0}),
    "smollm3": Family("smollm3", {"no_rope_layers": [1, 0, 1]}),
    "olmo2": Family("olmo2"),
    "granite": Family("granite", {"attention_multiplier": 0.3}),
    "opt": Family(
        "opt",
        {"ffn_dim": 48, "word_embed_proj_dim": 32, "dropout": 0.0, "attention_dropout": 0.0},
    ),
    "gpt oss": Family(
        "gpt_oss",
        _WINDOWS
        | _rope("yarn", factor=4.0, original_max_position_embeddings=16, truncate=False)
        | {"num_local_experts": 2, "num_experts_per_tok": 2},
        truth="eager",
        window=6,
    ),
    "llama 4": Family(
        "llama4_text",
        {
            "layer_types": ["chunked_attention", "chunked_attention", "full_attention"],
            "no_rope_layers": [1, 1, 0],
            "attention_chunk_size": 6,
            "intermediate_size_mlp": 48,
            "interleave_moe_layer_step": 2,
            "num_local_experts": 2,
            "num_experts_per_tok": 2,
        },
        window=6,
    ),
    "bert": Family("bert", _BERT, causal=False),
    "roberta": Family("roberta", _BERT, causal=False),
    "modernbert": Family(
        "modernbert",
        {
            "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
            "local_attention": 12,
            "attention_dropout": 0.0,
        },
        window=7,
        causal=False,
    ),
}
DECODERS = [name for name, family in FAMILIES.items() if family.causal]
ENCODERS = [name for name in FAMILIES if name not in DECODERS]
