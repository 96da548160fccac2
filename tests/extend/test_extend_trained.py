"""A trained model finds what is hidden, guesses nothing, and tells good factors from bad ones."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from posenc.extend.cells import Cell, Lengths
from posenc.extend.material import Material
from posenc.extend.measures import MEASURES
from posenc.extend.options import SEARCHED
from posenc.extend.search.factors import Candidate, Space
from posenc.extend.search.needles import needle_loss, needles
from posenc.extend.search.run import scaling_of
from posenc.extend.subject import load_subject
from posenc.models.attach import attach
from posenc.models.loading import load_model
from tests.support.trained import smollm2

pytestmark = pytest.mark.trained


def test_smollm2_finds_keys_where_they_are() -> None:
    model, tokenizer = load_model(smollm2())
    attach(model)
    text = (Path(__file__).parents[2] / "docs" / "en" / "howto" / "cache.md").read_text()
    material = Material.of(tokenizer, text, spans=1, longest=600)
    lengths = Lengths(8192, (10_240,))

    def found(measure: str, depth: float | None) -> bool:
        cell = Cell("none", measure, 600, 0, depth)
        return MEASURES[measure](model, material, lengths, 0, cell)["exact"]

    assert found("passkey", 0.1)
    assert not found("control", None)


def test_smollm2_tells_factors_by_their_needles() -> None:
    """As if it had been trained on 200 tokens: slow pairs may turn slower, all pairs may not."""
    subject = replace(load_subject(smollm2()), trained=200)
    text = (Path(__file__).parents[2] / "docs" / "en" / "howto" / "cache.md").read_text()
    hidden = needles(Material.of(subject.tokenizer, text, spans=1, longest=300), 300, 1, 0)

    def loss(candidate: Candidate) -> float:
        scaling = scaling_of(candidate, Space(100_000.0, 32, 200, 300))
        replace(subject, found=scaling).attach(SEARCHED, 300, 300)
        return needle_loss(subject.model, hidden)

    assert loss(Candidate(20, (1.5,) * 12)) < 1.0
    # Worse than a guess among ten digits.
    assert loss(Candidate(1, (40.0,) * 31)) > math.log(10)
