"""attn_implementation="posenc" alone, in models that hand attention more than a mask."""

from typing import Any

import pytest
import torch

import posenc as pe
from posenc.errors import UnsupportedError
from posenc.models.attach import register
from posenc.models.attach.attention import posenc_attention
from tests.support.families import FAMILIES
from tests.support.forwards import assert_differ, assert_same, logits, text

transformers = pytest.importorskip("transformers")

LENGTH = 12
IDS = text(rows=2, length=LENGTH)
PADDED = torch.ones(2, LENGTH, dtype=torch.long).index_fill(1, torch.tensor([10, 11]), 0)
T5 = {"vocab_size": 128, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
TEXTS = {"input_ids": IDS, "attention_mask": PADDED, "decoder_input_ids": IDS[:, :5]}
SOUND = {
    "input_features": torch.randn(2, LENGTH, 16, generator=torch.Generator().manual_seed(1)),
    "attention_mask": PADDED,
}
# Which code makes a bias of every pair: the class and its settings, and what it reads.
BIASED: dict[str, tuple[str, dict[str, Any], dict[str, torch.Tensor]]] = {
    "t5": ("T5ForConditionalGeneration", T5, TEXTS),
    "longt5": ("LongT5ForConditionalGeneration", T5, TEXTS),
    "switch": ("SwitchTransformersForConditionalGeneration", T5, TEXTS),
    "wav2vec2-bert": (
        "Wav2Vec2BertModel",
        {
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "feature_projection_input_dim": 16,
            "position_embeddings_type": "relative_key",
        },
        SOUND,
    ),
}


@pytest.mark.parametrize("name", BIASED)
def test_a_bias_that_the_models_code_made_is_added(name: str) -> None:
    kind, settings, told = BIASED[name]
    made = getattr(transformers, kind)
    torch.manual_seed(0)
    model = made(made.config_class(**settings)).eval()
    register()
    outputs, gradients = [], []
    for attention in ("eager", "posenc"):
        model.set_attn_implementation(attention)
        model.zero_grad()
        out = model(**told)[0]
        # Nobody reads what padding gives; a decoder has none.
        out = out if "decoder_input_ids" in told else out[PADDED.bool()]
        out.square().mean().backward()
        outputs.append(out.detach())
        gradients.append({k: x.grad for k, x in model.named_parameters() if x.grad is not None})
    torch.testing.assert_close(outputs[1], outputs[0], rtol=0, atol=1e-5 * float(outputs[0].amax()))
    tables = [key for key in gradients[0] if "relative_attention_bias" in key or "distance" in key]
    assert tables
    for key in tables:
        torch.testing.assert_close(gradients[1][key], gradients[0][key], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("name", ["sinks", "indices", "block_indices"])
def test_what_it_does_not_read_is_refused(name: str) -> None:
    q, k, v = torch.randn(3, 1, 4, 5, 8).unbind()
    told = {name: torch.zeros(1, 4, 5, 1)}
    with pytest.raises(UnsupportedError, match=f"Linear hands {name} to its attention"):
        posenc_attention(torch.nn.Linear(1, 1), q, k, v, None, **told)


def test_keys_that_an_indexer_chooses_are_refused() -> None:
    config = transformers.DeepseekV32Config(
        vocab_size=128,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=4,
        q_lora_rank=16,
        kv_lora_rank=16,
        qk_nope_head_dim=8,
        qk_rope_head_dim=8,
        v_head_dim=8,
        first_k_dense_replace=1,
        index_topk=4,
        index_head_dim=16,
        index_n_heads=2,
    )
    model = transformers.DeepseekV32ForCausalLM(config).eval()
    with pytest.raises(UnsupportedError, match="lets an indexer choose the keys"):
        pe.attach(model)
    register()
    model.set_attn_implementation("posenc")
    with pytest.raises(UnsupportedError, match="reads masks pair by pair"):
        logits(model, IDS)


def test_a_mask_that_the_models_code_writes_into_is_refused() -> None:
    config = transformers.DogeConfig(
        vocab_size=128,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    model = transformers.DogeForCausalLM(config).eval()
    register()
    model.set_attn_implementation("posenc")
    with pytest.raises(UnsupportedError, match="reads masks pair by pair"):
        logits(model, IDS)


def test_one_row_of_a_mask_stands_for_all_queries() -> None:
    theirs, ours = (FAMILIES["llama"].build() for _ in range(2))
    theirs.set_attn_implementation("eager")
    pe.attach(ours)
    row = torch.zeros(2, 1, 1, LENGTH)
    row[0, ..., 9:] = torch.finfo(torch.float32).min
    made = logits(ours, IDS, attention_mask=row)
    assert_same(made, logits(theirs, IDS, attention_mask=row))
    assert_differ(made[0], logits(ours, IDS)[0], "some keys are hidden")
