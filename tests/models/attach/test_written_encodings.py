"""Encodings of one's own in a model: what they read says whether cos and sin are enough."""

from typing import Any

import pytest
import torch

import posenc as pe
from posenc.attention import attend
from posenc.encoding import bound_for
from posenc.errors import UnsupportedError
from posenc.models.attach import watch
from posenc.terms import Rotate
from tests.support.families import FAMILIES
from tests.support.forwards import assert_same, decoded, left_padding, logits, text

transformers = pytest.importorskip("transformers")


class ByOrder(pe.Rotary):
    """Turns by the place of a token in its half dozen, which no position_ids tell."""

    def lower(self, positions, context=None, *, dtype=torch.float32):
        q, k = (self.angles(order % 6) for order in positions.orders())
        return (Rotate(q, k, self.layout),)


class OfKnownExtent(pe.Rotary):
    """Turns nothing whose end it does not know."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.tags = pe.Tags(needs_extent=True)

    def lower(self, positions, context=None, *, dtype=torch.float32):
        bound_for(self, positions)
        return super().lower(positions, context, dtype=dtype)


class Both(pe.ALiBi):
    """Says something to embeddings, too."""

    def embed(self, x, positions, *, layer=0):
        return x + 1


ENCODINGS = {
    "by order": lambda: ByOrder(8, base=50.0),
    "of known extent": lambda: OfKnownExtent(8),
    "values, too": lambda: [pe.Rotary(8), pe.RotaryValues(8)],
}


@pytest.mark.parametrize("name", ENCODINGS)
def test_what_is_written_anew_computes_the_scores(name: str) -> None:
    encoding, ids = ENCODINGS[name](), text(rows=2)
    model, raw = (FAMILIES["llama"].build() for _ in range(2))
    pe.attach(model, encoding)
    pe.attach(raw, encoding, raw_keys=True)
    whole = logits(model, ids)
    assert_same(whole, logits(raw, ids))
    seen: list[tuple[Any, ...]] = []
    with watch(raw, lambda *given: seen.append(given)):
        logits(raw, ids)
    for _, q, k, v, _, out, _ in seen:
        assert_same(out, attend(q, k, v, encoding, causal=True, backend="reference"))
    chunks = [9, 1, 1, 4]
    assert_same(decoded(model, ids, transformers.DynamicCache(), chunks), whole)
    told = left_padding(ids, [15, 9])
    alone = logits(model, ids[1:, -9:])
    assert_same(logits(model, ids, **told)[1:, -9:], alone)


def test_what_changes_embeddings_besides_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="changes the embeddings and attention besides"):
        pe.attach(FAMILIES["llama"].build(), Both(4))
