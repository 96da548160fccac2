"""posenc under DeBERTa and XLNet: masks, segments, and uses that are refused."""

from typing import Any

import pytest
import torch

import posenc as pe
from posenc.errors import UnsupportedError
from tests.support.own_code import MODELS, assert_same, inputs, output, right_padding, text

transformers = pytest.importorskip("transformers")


def pair(name: str, **settings: Any) -> tuple[Any, Any]:
    theirs, ours = MODELS[name].build(**settings), MODELS[name].build(**settings)
    pe.attach(ours)
    return theirs, ours


@torch.no_grad()
def test_deberta_takes_a_mask_of_pairs() -> None:
    mask = torch.ones(3, 15, 15).tril(4)
    expected, made = (
        model.deberta.encoder(model.deberta.embeddings(text()), mask).last_hidden_state
        for model in pair("deberta-v2, c2p")
    )
    assert_same(made, expected)


@torch.no_grad()
def test_deberta_reads_far_buckets() -> None:
    # Beyond max_relative_positions, which is 64 tokens here.
    ids = text(rows=1, length=100)
    for name in ("deberta-v2, shared", "deberta-v2, own", "deberta-v2, p2c"):
        expected, made = (output(model, input_ids=ids) for model in pair(name))
        assert_same(made, expected)


def test_deberta_drops_rows_of_its_table_in_training() -> None:
    model = MODELS["deberta-v2, shared"].build(hidden_dropout_prob=0.5)
    pe.attach(model)
    for layer in model.deberta.encoder.layer:
        layer.attention.self.pos_dropout.train()
    with torch.no_grad():
        first, second = (output(model, input_ids=text()) for _ in range(2))
        assert not torch.equal(first, second)
        model.eval()
        first, second = (output(model, input_ids=text()) for _ in range(2))
        assert torch.equal(first, second)


def test_deberta_with_queries_of_its_own_is_refused() -> None:
    model = pair("deberta-v2, shared")[1].deberta
    model.z_steps = 2
    with pytest.raises(UnsupportedError, match="z_steps"):
        model(text())


def test_deberta_without_relative_attention_is_refused() -> None:
    model = MODELS["deberta-v2, shared"].build(relative_attention=False)
    with pytest.raises(UnsupportedError, match="relative_attention=False"):
        pe.attach(model)


@torch.no_grad()
def test_xlnet_reads_texts_without_segments() -> None:
    for name in ("xlnet", "xlnet, causal", "xlnet, clamped"):
        expected, made = (output(model, input_ids=text()) for model in pair(name))
        assert_same(made, expected)


@torch.no_grad()
def test_xlnet_reads_its_arguments_in_any_form() -> None:
    theirs, ours = pair("xlnet")
    mask = right_padding([15, 9, 4])
    expected = output(theirs, **inputs("xlnet", text(), mask))[mask.bool()]
    segments = inputs("xlnet", text())["token_type_ids"]
    embedded = ours.word_embedding(text())
    for made in (
        ours(text(), mask, token_type_ids=segments),
        ours(text(), input_mask=1 - mask, token_type_ids=segments),
        ours(inputs_embeds=embedded, attention_mask=mask, token_type_ids=segments),
        # Numbers of segments say only which are the same.
        ours(text(), mask, token_type_ids=7 * segments + 3),
    ):
        assert_same(made.last_hidden_state[mask.bool()], expected)


@pytest.mark.parametrize(
    "told",
    [
        {"mems": [torch.zeros(2, 3, 32)] * 3},
        {"perm_mask": torch.zeros(3, 15, 15)},
        {"target_mapping": torch.zeros(3, 1, 15)},
        {"output_attentions": True},
    ],
    ids=lambda told: next(iter(told)),
)
def test_other_ways_through_xlnet_are_refused(told: dict[str, Any]) -> None:
    model = pair("xlnet")[1]
    with pytest.raises(UnsupportedError, match=next(iter(told))):
        model(text(), **told)
    pe.detach(model)
    model(text(), **told)


@pytest.mark.parametrize("setting", ["bi_data", "same_length"])
def test_xlnets_settings_of_pretraining_are_refused(setting: str) -> None:
    with pytest.raises(UnsupportedError, match=f"{setting}=True"):
        pe.attach(MODELS["xlnet"].build(**{setting: True}))


def test_xlnet_drops_waves_in_training() -> None:
    model = MODELS["xlnet"].build(dropout=0.25).train()
    pe.attach(model)
    made = output(model, input_ids=text())
    made.square().sum().backward()
    assert all(x.grad.isfinite().all() for x in model.parameters() if x.grad is not None)
    with torch.no_grad():
        assert not torch.equal(output(model, input_ids=text()), made)
