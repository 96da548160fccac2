"""Documents packed into one row, told by position_ids that begin anew."""

from typing import Any

import pytest
import torch
from torch import Tensor

import posenc as pe
from tests.support.families import DECODERS, ENCODERS, FAMILIES
from tests.support.forwards import assert_differ, assert_same, logits, text

pytest.importorskip("transformers")

DOCUMENTS = [5, 9, 1]
PLACES = torch.cat([torch.arange(n) for n in DOCUMENTS])[None]
# Whose masks are made without position_ids, so that documents see each other.
LEAKS = {
    "opt": "transformers' OPT does not hand position_ids to create_causal_mask",
    "gpt oss": "transformers' gpt-oss leaves position_ids out of mask_kwargs",
}


@pytest.fixture(scope="module", params=DECODERS)
def family(request: pytest.FixtureRequest) -> tuple[str, Any, Any]:
    return request.param, *FAMILIES[request.param].pair()


def alone(model: Any, ids: Tensor) -> Tensor:
    return torch.cat([logits(model, document) for document in ids.split(DOCUMENTS, dim=1)], dim=1)


def test_documents_do_not_see_each_other(family: tuple[str, Any, Any]) -> None:
    name, *pair = family
    ids = text(rows=2)
    told = {"position_ids": PLACES.expand(2, -1), "use_cache": False}
    theirs, ours = (logits(model, ids, **told) for model in pair)
    assert_same(ours, alone(pair[1], ids))
    if name in LEAKS:
        assert_differ(theirs, ours, LEAKS[name])
    else:
        assert_same(ours, theirs)


def test_a_cache_that_the_model_makes_changes_nothing(family: tuple[str, Any, Any]) -> None:
    _, theirs, ours = family
    ids = text(rows=1)
    made = logits(ours, ids, position_ids=PLACES)
    assert_same(made, alone(ours, ids))
    why = "transformers lets documents leak where use_cache is not set to False"
    assert_differ(logits(theirs, ids, position_ids=PLACES), made, why)


def test_sinks_are_the_first_tokens_of_each_document() -> None:
    _, ours = FAMILIES["llama"].pair()
    pe.attach(ours, [pe.Rotary(8), pe.SlidingWindow(2), pe.Sinks(1)])
    ids = text(rows=1)
    made = logits(ours, ids, position_ids=PLACES)
    assert_same(made, alone(ours, ids))
    pe.attach(ours, [pe.Rotary(8), pe.SlidingWindow(2)])
    assert_differ(made, logits(ours, ids, position_ids=PLACES), "sinks are seen")


def test_positions_that_come_without_their_name() -> None:
    _, ours = FAMILIES["llama"].pair()
    ids = text(rows=1)
    with torch.no_grad():
        made = ours.lm_head(ours.model(ids, None, PLACES)[0])
    assert_same(made, alone(ours, ids))


def test_a_leap_begins_no_document_where_transformers_does_not_say_so() -> None:
    theirs, ours = FAMILIES["llama"].pair()
    ids, places = text(rows=1, length=6), torch.tensor([[0, 1, 2, 30, 30, 31]])
    assert_same(logits(ours, ids, position_ids=places), logits(theirs, ids, position_ids=places))


@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_packs_nothing(name: str) -> None:
    theirs, ours = FAMILIES[name].pair()
    ids = text(rows=1)
    told = {"position_ids": PLACES}
    assert_same(logits(ours, ids, **told), logits(theirs, ids, **told))
    assert_differ(logits(ours, ids, **told), alone(ours, ids), "all tokens of a row see each other")
