"""Dual chunk attention of Qwen2.5-1M's files: read, judged, written, and run by attach."""

from typing import Any

import pytest
import torch

import posenc as pe
from posenc.models.angles import compare
from posenc.models.doctor import examine
from posenc.models.read import read
from posenc.models.write import write
from tests.models.test_read_facts import facts
from tests.support.forwards import assert_differ, assert_same, decoded, logits, text

ASKED = {"chunk_size": 8, "local_size": 3}
# Chunks of 5, of which 4 tokens see the chunk before at their own distance: 9 in all.
REACH = 9
QWEN = {
    "model_type": "qwen2",
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,
    "rope_theta": 10_000.0,
    "dual_chunk_attention_config": ASKED,
}


def asked(**more: Any) -> dict[str, Any]:
    return QWEN | {"dual_chunk_attention_config": ASKED | more}


def test_the_published_file_makes_chunks_of_what_its_two_sizes_leave() -> None:
    layer = read(facts("qwen2.5-7b-instruct-1m")["config"]).layers[0]
    assert layer is not None
    assert layer.rotary is not None
    built, expected = layer.rotary.build(), pe.DualChunk(128, 253_952, 8193, base=1e7)
    assert built.settings() == expected.settings()
    # A query of the third chunk: vLLM clamps where it stands before old chunks at chunk_size.
    q, k = torch.tensor([600_000.0]), torch.tensor([0.0, 300_000.0, 599_999.0])
    positions = pe.Positions(pe.Tokens(q.long()), pe.Tokens(k.long()), causal=False)
    (term,) = built.lower(positions)
    waves = 1e7 ** (-torch.arange(64, dtype=torch.float64) / 64)
    assert torch.allclose(term.beyond.q_angle[0, 0, 0], 262_144 * waves)
    assert layer.beyond == ("beyond 262144 tokens scores grow with the length of the input",)


def test_what_posenc_has_no_word_for_is_said_and_not_built_over() -> None:
    with pytest.raises(pe.UnsupportedError, match="beyond 262144 tokens"):
        pe.layers(facts("qwen2.5-7b-instruct-1m")["config"])
    sparse = read(asked(sparse_attention_enabled=True)).layers[0]
    assert sparse is not None
    assert sparse.beyond == ("prompts beyond 32768 tokens see a sparse pattern of keys",)
    assert not read(asked(sparse_attention_enabled=False)).unread


def test_sizes_that_make_no_chunk_are_refused() -> None:
    with pytest.raises(pe.ConfigError, match="local_size is 8"):
        read(asked(local_size=8))
    with pytest.raises(pe.ConfigError, match="a rotation of whole heads"):
        read(asked() | {"rope_scaling": {"rope_type": "linear", "factor": 2.0}})
    silent = read(QWEN | {"dual_chunk_attention_config": {"local_size": 100}}).layers[0]
    assert silent is not None
    assert silent.rotary is not None
    assert (silent.rotary.settings["chunk"], silent.rotary.settings["local"]) == (8092, 101)
    plain = read(QWEN | {"dual_chunk_attention_config": None}).layers[0]
    assert plain is not None
    assert plain.rotary is not None
    assert plain.rotary.name == "rotary"


def test_who_does_not_read_it_is_right_up_to_a_chunk_and_off_beyond() -> None:
    values = asked()
    plain = read(values | {"dual_chunk_attention_config": None})
    assert compare(read(values), plain, REACH) is None
    effect = compare(read(values), plain, 40)
    # Of 39 tokens the fastest pair should have turned by 8.
    assert effect is not None
    assert effect.angle == pytest.approx(31.0)
    rules = [
        x.rule for x in examine(values, target_length=REACH, engines=["transformers"]).findings
    ]
    assert "dual-chunk-dropped" not in rules
    # No distance is new in a longer text.
    found = examine(values, target_length=10_000, engines=[]).findings
    assert "beyond-training" not in [x.rule for x in found]


@pytest.mark.parametrize("target", ["hf4", "hf5"])
def test_it_stays_in_the_file(target: str) -> None:
    written = write(asked(), target)
    # It is there, and transformers 5 does not read it.
    unread = [line.about for line in written.lines if line.verdict != "exact"]
    assert unread == (["dual_chunk_attention_config"] if target == "hf5" else [])
    assert compare(read(asked()), read(written.config or {}), 10_000) is None
    assert "DualChunk" in repr(pe.layers(written.config or {}))
    about = {line.about: line.verdict for line in write(asked(), "gguf").lines}
    assert about["dual_chunk_attention_config"] == "impossible"


def test_attached_it_acts_where_transformers_lets_distances_grow() -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(
        transformers.AutoConfig.for_model(**QWEN), attn_implementation="eager"
    ).eval()
    ids = text(length=23)
    plain = logits(model, ids)
    attached = pe.attach(model)
    assert "DualChunk(dim=8, chunk=5, local=4" in str(attached)
    made = logits(model, ids)
    assert_same(made[:, :REACH], plain[:, :REACH])
    assert_differ(made[:, REACH:], plain[:, REACH:], "transformers does not read it")
    cache = transformers.DynamicCache(config=model.config)
    assert_same(decoded(model, ids, cache, [7, 1, 1, 6, 8]), made)
    pe.attach(model, pe.DualChunk(8, 5, 4))
    assert_same(logits(model, ids), made)
