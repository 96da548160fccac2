"""Encodings whose angles depend on the length of the text: where transformers differs, and why."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.families import FAMILIES, Family
from tests.support.forwards import assert_differ, assert_same, decoded, left_padding, logits, text

transformers = pytest.importorskip("transformers")

TRAINED = 64
DYNAMIC = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10_000.0}
STRETCHED = {
    "longrope": FAMILIES["phi3"],
    "dynamic ntk": Family(
        "llama", {"rope_parameters": DYNAMIC, "max_position_embeddings": TRAINED}
    ),
}


@pytest.fixture(params=STRETCHED)
def pair(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    return STRETCHED[request.param].pair()


@pytest.mark.parametrize("length", [TRAINED - 1, TRAINED, TRAINED + 1, TRAINED + 20])
def test_whole_texts(pair: tuple[Any, Any], length: int) -> None:
    theirs, ours = (logits(model, text(length=length)) for model in pair)
    assert_same(ours, theirs)


def last_of_whole(model: Any, ids: Tensor, first: int) -> Tensor:
    """The last row of every whole forward pass over `first` tokens or more."""
    rows = [logits(model, ids[:, :n])[:, -1:] for n in range(first, ids.shape[1] + 1)]
    return torch.cat(rows, dim=1)


@pytest.mark.parametrize("name", STRETCHED)
def test_decoding_beyond_the_trained_length(name: str) -> None:
    """transformers' caches hold keys that were turned for a shorter text, and keep them so.

    Of one layer, for in a second what is cached comes from a first that saw a shorter text.
    """
    family = STRETCHED[name]
    pair = replace(family, settings={**family.settings, "num_hidden_layers": 1}).pair()
    ids = text(length=TRAINED + 6)
    first = TRAINED - 3
    chunks = [first] + [1] * (ids.shape[1] - first)
    expected = last_of_whole(pair[1], ids, first)
    theirs, ours = (
        decoded(model, ids, transformers.DynamicCache(), chunks)[:, first - 1 :] for model in pair
    )
    assert_same(ours, expected)
    assert_same(theirs[:, :4], expected[:, :4])
    assert_differ(theirs[:, 4:], expected[:, 4:], "old keys are turned by old angles")


def test_a_long_row_does_not_change_a_short_one(pair: tuple[Any, Any]) -> None:
    """In transformers the longest row tells the length of all."""
    ids = text(length=TRAINED + 8)
    told = left_padding(ids, [TRAINED + 8, 20])
    alone = logits(pair[1], ids[1:, -20:])
    theirs, ours = (logits(model, ids, **told)[1:, -20:] for model in pair)
    assert_same(ours, alone)
    assert_differ(theirs, alone, "the length of a batch is that of its longest row")


def test_a_long_document_does_not_change_a_short_one(pair: tuple[Any, Any]) -> None:
    ids = text(rows=1, length=TRAINED + 28)
    places = torch.cat([torch.arange(TRAINED + 8), torch.arange(20)])[None]
    made = logits(pair[1], ids, position_ids=places)[:, -20:]
    assert_same(made, logits(pair[1], ids[:, -20:]))


def test_texts_leave_nothing_behind() -> None:
    """transformers' dynamic NTK keeps the angles of the longest text, until a short one comes."""
    theirs, ours = STRETCHED["dynamic ntk"].pair()
    ids = text(length=TRAINED + 4)
    before = logits(theirs, ids), logits(ours, ids)
    for model in (theirs, ours):
        logits(model, text(length=TRAINED + 40))
    assert torch.equal(logits(ours, ids), before[1])
    assert_differ(logits(theirs, ids), before[0], "a longer text was there before")


@pytest.mark.parametrize("name", ["longrope"])
def test_generate_beyond_the_trained_length(name: str) -> None:
    """transformers' Phi-3 drops its cache at this length, and then is right."""
    theirs, ours = STRETCHED[name].pair()
    told = {"max_new_tokens": 8, "min_new_tokens": 8, "do_sample": False}
    texts = [model.generate(text(length=TRAINED - 3), **told) for model in (theirs, ours)]
    assert torch.equal(*texts)
