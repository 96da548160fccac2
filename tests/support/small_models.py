"""Small models of transformers, with random weights or with weights whose answer is known."""

from typing import Any

import pytest
import torch

SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}
HEADS = {"num_attention_heads": 4}


def llama(**settings: Any) -> Any:
    """A rotary decoder of 4 heads that share 2 key heads, trained to 128 tokens by its word."""
    transformers = pytest.importorskip("transformers")
    sizes = SIZES | HEADS | {"num_key_value_heads": 2, "max_position_embeddings": 128}
    config = transformers.LlamaConfig(vocab_size=97, **sizes | settings)
    return transformers.LlamaForCausalLM(config).eval()


def bert(**settings: Any) -> Any:
    """An encoder with a learned table of 160 rows."""
    transformers = pytest.importorskip("transformers")
    sizes = SIZES | HEADS | {"max_position_embeddings": 160}
    config = transformers.BertConfig(vocab_size=97, **sizes | settings)
    return transformers.BertModel(config).eval()


def gemma2(**settings: Any) -> Any:
    """A decoder of one layer and 2 heads, whose scores are capped unless told otherwise."""
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 1, "head_dim": 16}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 32}
    config = transformers.Gemma2Config(**sizes, **heads, **settings, initializer_range=1.0)
    return transformers.Gemma2ForCausalLM(config).eval()


def stablelm() -> Any:
    """A decoder that tells transformers of no way into its attention."""
    transformers = pytest.importorskip("transformers")
    sizes = SIZES | HEADS | {"num_key_value_heads": 4}
    config = transformers.StableLmConfig(vocab_size=97, **sizes)
    return transformers.StableLmForCausalLM(config).eval()


def looking_back(tokens: int = 64) -> Any:
    """An encoder of one head, which attends to the token before and reads nothing but the table."""
    model = bert(
        hidden_size=tokens, num_attention_heads=1, num_hidden_layers=1,
        max_position_embeddings=tokens,
    )  # fmt: skip
    attention = model.encoder.layer[0].attention.self
    with torch.no_grad():
        model.embeddings.word_embeddings.weight.zero_()
        model.embeddings.token_type_embeddings.weight.zero_()
        model.embeddings.position_embeddings.weight.copy_(torch.eye(tokens))
        # The query of row n is the key of row n - 1, made so large that no other is left.
        attention.query.weight.copy_(10 * torch.eye(tokens).roll(-1, dims=0))
        attention.key.weight.copy_(torch.eye(tokens))
        attention.query.bias.zero_()
        attention.key.bias.zero_()
    return model
