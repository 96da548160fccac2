"""`generate` of a model with posenc writes the text that transformers writes."""

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.families import DECODERS, FAMILIES
from tests.support.forwards import assert_same, left_padding, text
from tests.support.spread import spread

pytest.importorskip("transformers")

NEW = 8


@pytest.fixture(scope="module", params=DECODERS)
def pair(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    return FAMILIES[request.param].pair()


def generated(model: Any, ids: Tensor, mask: Tensor, **told: Any) -> tuple[Tensor, Tensor]:
    """Tokens (b, t), and the scores (b, t, vocabulary) that they were chosen by."""
    settings = {"max_new_tokens": NEW, "min_new_tokens": NEW, "do_sample": False, **told}
    out = model.generate(
        ids,
        attention_mask=mask,
        return_dict_in_generate=True,
        output_logits=True,
        disable_compile=True,
        **settings,
    )
    return out.sequences, torch.stack(out.logits, dim=1)


def assert_same_text(pair: tuple[Any, Any], mask: Tensor, **told: Any) -> None:
    ids = text(rows=mask.shape[0], length=mask.shape[1])
    ids[mask == 0] = 0
    (theirs, their_scores), (ours, our_scores) = (
        generated(model, ids, mask, **told) for model in pair
    )
    assert torch.equal(ours, theirs)
    finite = our_scores.isfinite()
    assert_same(our_scores[finite], their_scores[finite])


@pytest.mark.parametrize(
    ("pair", "cache", "length"),
    spread(DECODERS, [None, "static", "dynamic"], [4, 10]),
    indirect=["pair"],
)
def test_greedy(pair: tuple[Any, Any], cache: str | None, length: int) -> None:
    mask = torch.ones(2, length, dtype=torch.long)
    assert_same_text(pair, mask, cache_implementation=cache)


@pytest.mark.parametrize("cache", [None, "static"])
def test_left_padded(pair: tuple[Any, Any], cache: str | None) -> None:
    mask = left_padding(text(rows=3, length=10), [10, 7, 3])["attention_mask"]
    assert_same_text(pair, mask, cache_implementation=cache)


def test_beams(pair: tuple[Any, Any]) -> None:
    mask = left_padding(text(rows=2, length=8), [8, 5])["attention_mask"]
    assert_same_text(pair, mask, num_beams=3)


def test_without_a_cache(pair: tuple[Any, Any]) -> None:
    mask = left_padding(text(rows=2, length=8), [8, 5])["attention_mask"]
    assert_same_text(pair, mask, use_cache=False)
