"""Models whose answers are known, looked at as a whole."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch

import posenc as pe
from posenc.errors import UnsupportedError
from posenc.inspection.layer import layer_data
from posenc.inspection.run import inspect_model
from posenc.models.collect import LayerCall, collect
from posenc.models.loading import Loaded, load_model
from posenc.positions import Positions, Tokens
from tests.support.families import FAMILIES
from tests.support.small_models import bert, gemma2, llama, looking_back, stablelm

transformers = pytest.importorskip("transformers")


def looked_at(model: Any, **options: Any) -> dict[str, Any]:
    return inspect_model(Loaded(model, None), **options)


@pytest.fixture(scope="module")
def back() -> dict[str, Any]:
    return looked_at(looking_back())


@pytest.fixture(scope="module")
def rotary() -> dict[str, Any]:
    torch.manual_seed(0)
    return looked_at(llama(), tokens=40)


class TestAHeadThatLooksBack:
    def test_it_attends_one_token_away(self, back: dict[str, Any]) -> None:
        attention = back["layers"][0]["attention"]
        assert attention["previous"] == pytest.approx([1.0])
        assert attention["distance"] == pytest.approx([1.0])
        assert attention["reach"] == [1]
        assert attention["entropy"] == pytest.approx([0.0], abs=1e-4)

    def test_position_explains_all_of_its_scores(self, back: dict[str, Any]) -> None:
        stays = back["layers"][0]["stays"]
        assert stays["content"] == pytest.approx([0.0], abs=1e-6)
        # But for the first token, which has none before it, the distance tells all.
        assert stays["distance"][0] > 0.95

    def test_what_lies_in_a_table_cannot_be_split(self, back: dict[str, Any]) -> None:
        assert back["layers"][0]["split"] is None
        assert back["layers"][0]["pairs"] is None

    def test_a_full_table_has_no_room_for_shifts(self, back: dict[str, Any]) -> None:
        assert back["shifts"]["changes"] == []
        assert any("as long as the model takes (64 tokens)" in note for note in back["notes"])


class TestARotaryDecoder:
    def test_shifts_change_nothing_but_rounding(self, rotary: dict[str, Any]) -> None:
        changes = rotary["shifts"]["changes"]
        assert [one["shift"] for one in changes] == [1, 16]
        assert all(0 < one["relative"] < 1e-4 for one in changes)
        assert rotary["shifts"]["compared"] == "logits"
        assert any("by rounding only" in sentence for sentence in rotary["summary"])

    def test_its_scores_are_split(self, rotary: dict[str, Any]) -> None:
        for layer in rotary["layers"]:
            assert layer["notes"] == []
            shares = zip(*layer["split"].values(), strict=True)
            assert [sum(parts) for parts in shares] == pytest.approx([1.0] * 4, abs=1e-3)
            assert layer["encoding"].startswith("Rotary(dim=16")

    def test_its_pairs(self, rotary: dict[str, Any]) -> None:
        pairs = rotary["layers"][0]["pairs"]
        assert len(pairs["q"]) == 8
        assert pairs["wavelength"][0] == pytest.approx(2 * math.pi, rel=1e-4)
        assert min(pairs["product"]) > 0

    def test_there_is_no_table(self, rotary: dict[str, Any]) -> None:
        assert rotary["table"] is None


def test_rows_beyond_100_are_at_initialisation() -> None:
    model = bert()
    weight = model.embeddings.position_embeddings.weight
    tokens = Tokens(torch.arange(101))
    with torch.no_grad():
        waves = pe.Sinusoidal(64).embed(torch.zeros(1, 101, 64), Positions(tokens, tokens))[0]
        weight[:101] += 0.2 * waves
    data = looked_at(model, tokens=32)
    assert data["table"]["states"] == {"trained": [[0, 100]], "initial": [[101, 159]]}
    assert any("rows 101 to 159 look as they were drawn" in x for x in data["summary"])


def test_a_table_changes_the_output_when_all_is_shifted() -> None:
    model = bert(initializer_range=0.2)
    data = looked_at(model, tokens=32)
    assert [one["shift"] for one in data["shifts"]["changes"]] == [1, 16]
    assert all(one["relative"] > 0.01 for one in data["shifts"]["changes"])
    assert data["shifts"]["compared"] == "hidden states"


@pytest.mark.parametrize("kind", ["Roberta", "OPT"])
def test_positions_that_begin_with_two(kind: str) -> None:
    sizes = {"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = getattr(transformers, f"{kind}Config")(**sizes, max_position_embeddings=66,
                                                   init_std=0.5, initializer_range=0.5,
                                                   word_embed_proj_dim=32)  # fmt: skip
    name = {"Roberta": "RobertaModel", "OPT": "OPTForCausalLM"}[kind]
    data = looked_at(getattr(transformers, name)(config).eval(), tokens=24)
    assert [one["shift"] for one in data["shifts"]["changes"]] == [1, 16]
    assert data["shifts"]["changes"][0]["relative"] > 1e-3


def test_capped_scores_are_not_taken_for_attention() -> None:
    (layer,) = looked_at(gemma2(attn_logit_softcapping=0.05), tokens=16)["layers"]
    assert layer["attention"] is None
    assert "not softmax of these scores alone" in layer["notes"][0]


def test_what_learned_sinks_take_is_missing_from_the_tokens() -> None:
    model = FAMILIES["gpt oss"].build()
    model.model.layers[1].self_attn.sinks.data.fill_(20.0)
    small, large = looked_at(model, tokens=16)["layers"][:2]
    assert small["notes"] == large["notes"] == []
    # Of scores that are far below 20 nearly nothing is left.
    assert max(large["attention"]["itself"]) < 0.01
    assert max(small["attention"]["itself"]) > 0.05


def test_a_scale_of_the_models_own() -> None:
    model = gemma2(attn_logit_softcapping=None, query_pre_attn_scalar=1)
    (layer,) = looked_at(model, tokens=16)["layers"]
    assert layer["notes"] == []
    assert layer["attention"]


def test_a_window_hides_far_keys() -> None:
    sizes = {"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 1, "intermediate_size": 32}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "sliding_window": 4}
    config = transformers.MistralConfig(**sizes, **heads)
    (layer,) = looked_at(transformers.MistralForCausalLM(config).eval(), tokens=24)["layers"]
    assert layer["window"] == 4
    assert max(layer["attention"]["reach"]) <= 3
    assert sum(layer["attention"]["mass"][4:]) == 0.0


def test_an_encoding_of_posenc_that_a_model_was_saved_with(tmp_path: Path) -> None:
    model = llama()
    pe.attach(model, pe.ALiBi(4))
    model.save_pretrained(tmp_path)
    data = inspect_model(load_model(tmp_path), tokens=24)
    assert data["layers"][0]["encoding"].startswith("ALiBi")
    assert data["layers"][0]["split"]["distance"][0] > 0.5
    assert data["layers"][0]["pairs"] is None
    assert all(one["relative"] < 1e-4 for one in data["shifts"]["changes"])


def test_an_encoding_of_posenc_in_place_of_a_table(tmp_path: Path) -> None:
    model = bert(initializer_range=0.2)
    pe.attach(model, pe.ALiBi(4))
    model.save_pretrained(tmp_path)
    data = inspect_model(load_model(tmp_path), tokens=24)
    assert data["table"] is None
    # The table, which is in the files still, would change the output.
    assert all(one["relative"] < 1e-4 for one in data["shifts"]["changes"])


def test_shifts_end_where_the_table_does() -> None:
    changes = looked_at(bert(), tokens=145)["shifts"]["changes"]
    assert [one["shift"] for one in changes] == [1]


def test_what_the_tokenizer_adds_is_no_place() -> None:
    # Every text begins with token 1, which is like no other.
    model = bert(initializer_range=0.2, max_position_embeddings=32)
    with torch.no_grad():
        model.embeddings.position_embeddings.weight.zero_()
    ids = torch.randint(2, 97, (4, 32))
    ids[:, 0] = 1
    calls: list[LayerCall] = []
    collect(model, ids, calls.append, {0})
    parts = slice(1, 32), slice(0, 32)
    places = [sum(layer_data(calls[0], part)["stays"]["place"]) for part in parts]
    assert places[0] < places[1] / 2


def test_layers_that_posenc_cannot_enter_are_told_of() -> None:
    data = looked_at(stablelm(), tokens=16)
    assert data["layers"] == []
    assert any("Layers were not looked at" in note for note in data["notes"])


def test_a_model_that_takes_no_positions_is_not_shifted() -> None:
    config = transformers.BloomConfig(hidden_size=32, n_layer=1, n_head=2, vocab_size=97)
    data = looked_at(transformers.BloomForCausalLM(config).eval(), tokens=16)
    assert [layer["layer"] for layer in data["layers"]] == [0]
    assert data["shifts"]["changes"] == []
    assert any("takes no position_ids" in note for note in data["notes"])


def test_what_reads_no_single_text() -> None:
    config = transformers.T5Config(d_model=32, d_ff=32, num_layers=1, num_heads=2, vocab_size=97)
    with pytest.raises(UnsupportedError, match="does not read one text"):
        looked_at(transformers.T5ForConditionalGeneration(config).eval())
