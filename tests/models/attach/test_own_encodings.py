"""Other encodings in models with attention code of their own, and what is refused there."""

from typing import Any
from unittest.mock import patch

import pytest
import torch

import posenc as pe
from posenc.attention import attend
from posenc.errors import PosencError, UnsupportedError
from posenc.models.attach import watch
from tests.support.own_code import MODELS, WRITERS, assert_same, inputs, output, text

transformers = pytest.importorskip("transformers")

# Of as many heads, and as wide, as each of these models has.
ROOMY = {"t5": 4, "falcon, one key head": 4, "falcon, alibi": 4, "bloom": 4, "mpt": 6}


def others(heads: int) -> list[pe.Encoding]:
    """Encodings that none of these models has."""
    slopes = [0.1 * (head + 1) for head in range(heads)]
    learned = pe.ALiBi(heads, slopes, learned=True)
    return [pe.Rotary(8, base=50.0), learned, pe.SlidingWindow(4), pe.T5Bias(heads, 6, 12)]


@pytest.mark.parametrize("name", ROOMY)
@torch.no_grad()
def test_another_encoding_computes_the_scores(name: str) -> None:
    for encoding in others(ROOMY[name]):
        model = MODELS[name].build()
        own = output(model, **inputs(name, text()))
        pe.attach(model, encoding)
        made = output(model, **inputs(name, text()))
        assert (made - own).abs().max() > 1e-3 * own.abs().max()
        pe.detach(model)
        assert torch.equal(output(model, **inputs(name, text())), own)


@pytest.mark.parametrize("name", ROOMY)
def test_each_layer_attends_by_it(name: str) -> None:
    for encoding in others(ROOMY[name]):
        model = MODELS[name].build()
        pe.attach(model, encoding, raw_keys=True)
        seen: list[tuple[Any, ...]] = []
        with watch(model, lambda *given, seen=seen: seen.append(given)), torch.no_grad():
            output(model, **inputs(name, text()))
        sides = [False] * 3 + [True] * 3 if name == "t5" else [True] * 3
        for (_, q, k, v, lowered, out, scale), causal in zip(seen, sides, strict=True):
            assert lowered.positions.causal == causal
            assert name != "t5" or scale == 1.0
            told: dict[str, Any] = {"causal": causal, "scale": scale, "backend": "reference"}
            assert_same(out, attend(q, k, v, encoding, **told))


@pytest.mark.parametrize("name", ROOMY)
def test_text_is_written_by_it(name: str) -> None:
    for encoding in others(ROOMY[name]):
        model = MODELS[name].build()
        pe.attach(model, encoding)
        told = {"max_new_tokens": 8, "do_sample": False}
        expected = model.generate(text(), use_cache=False, **told)
        assert torch.equal(model.generate(text(), **told), expected)


def test_the_decoder_of_t5_goes_on_counting() -> None:
    model = MODELS["t5"].build()
    biases = [pe.T5Bias(4, 8, 20, bidirectional=layer < 3) for layer in range(6)]
    pe.attach(model, lambda layer: biases[layer])
    seen = []
    with watch(model, lambda *told: seen.append(told[4].terms[0].values)), torch.no_grad():
        output(model, **inputs("t5", text()))
    for made, bias in zip(seen, biases, strict=True):
        assert made.shape[1] == (41 if bias.bidirectional else 21)
        assert torch.equal(made[:, 19], bias.weight[bias.bucket(torch.tensor(-1))])


@pytest.mark.parametrize("name", ["t5", "falcon, one key head"])
def test_what_is_learned_becomes_the_models(name: str) -> None:
    model, encoding = MODELS[name].build(), pe.T5Bias(4, 6, 10)
    pe.attach(model, encoding)
    assert any(parameter is encoding.weight for parameter in model.parameters())
    output(model, **inputs(name, text())).square().sum().backward()
    assert encoding.weight.grad is not None
    assert encoding.weight.grad.abs().min() > 0


@pytest.mark.parametrize("name", ["deberta-v2, shared", "xlnet"])
def test_there_is_no_room_for_another(name: str) -> None:
    model = MODELS[name].build()
    with pytest.raises(UnsupportedError, match="no other encoding has room"):
        pe.attach(model, pe.Rotary(8))


def test_other_heads_do_not_fit() -> None:
    with pytest.raises(PosencError, match="heads=5"):
        pe.attach(MODELS["t5"].build(), pe.ALiBi(5))


def test_interleaved_pairs_do_not_fit_falcon() -> None:
    with pytest.raises(UnsupportedError, match="layout"):
        pe.attach(MODELS["falcon, one key head"].build(), pe.Rotary(8, layout="interleaved"))


def test_a_family_that_nobody_knows_is_refused() -> None:
    config = transformers.DebertaConfig(vocab_size=9, hidden_size=8, num_attention_heads=2)
    model = transformers.DebertaModel(config)
    with pytest.raises(UnsupportedError, match="DebertaModel does not tell that all its attention"):
        pe.attach(model)


@pytest.mark.parametrize("name", MODELS)
def test_attention_is_dropped_in_training_alone(name: str) -> None:
    keys = ("dropout_rate", "attention_dropout", "attention_probs_dropout_prob", "dropout")
    known = [key for key in keys if hasattr(MODELS[name].config(), key)]
    settings: dict[str, Any] = dict.fromkeys(known, 0.25)
    model = MODELS[name].build(**settings)
    if name == "mpt":
        # The configuration of transformers takes whole numbers alone for attn_pdrop.
        for block in model.transformer.blocks:
            block.attn.attn_dropout_p = 0.25
    pe.attach(model)
    # In FalconAttention.forward weights are never dropped beside rotary: "it is unclear why".
    asked = 0.0 if name.startswith("falcon") and "alibi" not in name else 0.25
    for trains in (True, False):
        model.train(trains)
        shares = set()

        def listening(*given: Any, shares: set[float] = shares, **told: Any) -> Any:
            shares.add(told["dropout"])
            return attend(*given, **told)

        with (
            patch("posenc.models.attach.attention.attend", listening),
            patch("posenc.models.attach.own.layer_terms.attend", listening),
        ):
            output(model, **inputs(name, text()))
        assert shares == {asked if trains else 0.0}


def test_every_writer_is_here() -> None:
    assert {name.split(",")[0] for name in WRITERS} == {
        *("t5", "mt5", "umt5"),
        *("falcon", "bloom", "mpt"),
    }
