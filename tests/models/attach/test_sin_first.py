"""posenc under GPT-J and CodeGen, whose rotary modules give sin before cos.

Before transformers 5.24 they turned by code of their own, and were refused.
"""

from typing import Any

import pytest
import torch

import posenc as pe
from posenc.models.attach.caches import PosencCache
from tests.models.attach.test_generate import assert_same_text
from tests.models.attach.test_precision import assert_as_close
from tests.support.families import Family
from tests.support.forwards import assert_differ, assert_same, decoded, left_padding, logits, text

transformers = pytest.importorskip("transformers", minversion="5.24")

# 16 dimensions of a head, of which the first 8 turn.
_SIZES = {"hidden_size": 64, "head_dim": 16, "rotary_dim": 8}
_PLAIN = {"attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0}
NAMES = ["gptj", "codegen"]
LENGTHS = [15, 9, 4]


def family(name: str) -> Family:
    return Family(name, _SIZES | _PLAIN)


@pytest.fixture(scope="module", params=NAMES)
def pair(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    return family(request.param).pair()


def test_padded_rows(pair: tuple[Any, Any]) -> None:
    ids, told = text(rows=3), left_padding(text(rows=3), LENGTHS)
    theirs, ours = (logits(model, ids, **told) for model in pair)
    real = told["attention_mask"].bool()
    assert_same(ours[real], theirs[real])
    assert_differ(ours, logits(pair[1], ids), "padding is hidden")


@pytest.mark.parametrize("raw_keys", [False, True])
@pytest.mark.parametrize("cache", [None, PosencCache])
@pytest.mark.parametrize("name", NAMES)
def test_tokens_behind_a_cache(name: str, cache: Any, raw_keys: bool) -> None:
    theirs, ours = family(name).pair()
    says = str(pe.attach(ours, raw_keys=raw_keys))
    assert ("in attention" if raw_keys else "as cos and sin") in says
    held = cache(ours, lambda: pe.Cache("raw")) if cache else transformers.DynamicCache()
    assert_same(decoded(ours, text(), held, [6, 1, 4, 4]), logits(theirs, text()))


def test_generate(pair: tuple[Any, Any]) -> None:
    assert_same_text(pair, left_padding(text(rows=3, length=10), [10, 7, 3])["attention_mask"])


@pytest.mark.parametrize("name", NAMES)
def test_other_encodings(name: str) -> None:
    theirs, ours = family(name).pair()
    expected = logits(theirs, text())
    pe.attach(ours, pe.Rotary(16, rotary_dim=8, layout="interleaved", scaling=pe.Linear(4.0)))
    places = torch.arange(15)[None].expand(2, -1)
    assert_same(logits(ours, text(), position_ids=4 * places), expected)
    assert_differ(logits(ours, text()), expected, "it turns by a quarter")
    pe.attach(ours, pe.NoPE())
    made = logits(ours, text())
    pe.detach(ours)
    assert torch.equal(logits(ours, text()), expected)
    table = ours.transformer.rotary_emb.embed_positions
    table.copy_(torch.tensor([0.0, 1.0]).repeat_interleave(4))
    assert_same(made, logits(ours, text()))


@pytest.mark.parametrize("name", NAMES)
def test_bfloat16(name: str) -> None:
    """CodeGen turns in float32 whatever its numbers are, and GPT-J in their own."""
    theirs, ours = (model.to(torch.bfloat16) for model in family(name).pair())
    cos = ours.transformer.rotary_emb(torch.zeros(1, dtype=torch.bfloat16), torch.ones(1, 1).long())
    assert cos[0].dtype == (torch.float32 if name == "codegen" else torch.bfloat16)
    truth = family(name).build()
    truth.load_state_dict(theirs.state_dict())
    ids = text(rows=8, length=20)
    assert_as_close(logits(ours, ids), logits(theirs, ids), logits(truth, ids))
