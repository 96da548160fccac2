"""Two models that read one text and write another, or that see images, are told apart."""

import copy
from typing import Any

import pytest
import torch

import posenc as pe
from tests.models.attach.test_images import build, pictured

transformers = pytest.importorskip("transformers")

IDS = torch.randint(2, 97, (2, 40), generator=torch.Generator().manual_seed(0))
_BART = {
    "vocab_size": 97,
    "d_model": 32,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "init_std": 0.3,
}
_T5 = {"vocab_size": 97, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
_T5GEMMA = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
}


def that_writes(kind: str, **settings: Any) -> Any:
    model = getattr(transformers, kind)
    torch.manual_seed(0)
    config = model.config_class(**settings)
    return model._from_config(config, attn_implementation="eager").eval()


@pytest.mark.parametrize(
    ("kind", "settings", "name", "place"),
    [
        ("Bart", _BART, "model.encoder.embed_positions.weight", "encoder embeddings"),
        ("Bart", _BART, "model.encoder.layers.0.fc1.weight", "encoder layer 0, what it returns"),
        ("Bart", _BART, "model.encoder.layers.1.fc1.weight", "encoder, what it returns"),
        ("Bart", _BART, "model.decoder.embed_positions.weight", "decoder embeddings"),
        (
            "Bart",
            _BART,
            "model.decoder.layers.0.encoder_attn.v_proj.weight",
            "decoder layer 0, what it returns",
        ),
        ("Bart", _BART, "model.decoder.layers.1.fc1.weight", "the result"),
        ("T5", _T5, "encoder.final_layer_norm.weight", "encoder, what it returns"),
        (
            "T5",
            _T5,
            "decoder.block.0.layer.0.SelfAttention.v.weight",
            "decoder layer 0, what it returns",
        ),
        (
            "T5Gemma",
            {"encoder": _T5GEMMA, "decoder": _T5GEMMA},
            "model.decoder.layers.1.self_attn.v_proj.weight",
            "decoder layer 1, values",
        ),
        (
            "T5Gemma",
            {"encoder": _T5GEMMA, "decoder": _T5GEMMA},
            "model.encoder.layers.0.self_attn.q_proj.weight",
            "encoder layer 0, queries and keys",
        ),
    ],
)
def test_an_encoder_and_its_decoder_are_looked_into_one_by_one(
    kind: str, settings: dict[str, Any], name: str, place: str
) -> None:
    model = that_writes(f"{kind}ForConditionalGeneration", **settings)
    other = copy.deepcopy(model)
    # Of other lengths, and padded: a decoder has no row for what its encoder reads.
    told = {"attention_mask": torch.ones_like(IDS), "decoder_input_ids": IDS[:, :9]}
    told["attention_mask"][0, 30:] = 0
    assert pe.diagnose_models(model, other, IDS, **told).agree
    other.get_parameter(name).data *= 1.5
    diagnosis = pe.diagnose_models(model, other, IDS, **told)
    assert (diagnosis.place, diagnosis.weights) == (place, (name,))


def test_tokens_of_images_stand_where_the_model_put_them() -> None:
    model, other = build(), build()
    ids, told = pictured()
    assert pe.diagnose_models(model, other, ids, **told).agree
    pe.attach(other, pe.MRoPE(8, sections=(2, 1, 1), base=100.0))
    diagnosis = pe.diagnose_models(model, other, ids, **told)
    assert (diagnosis.place, diagnosis.cause) == ("layer 0, queries and keys", "base")
    assert "base 100, ours 10000. That explains the whole difference" in str(diagnosis)
