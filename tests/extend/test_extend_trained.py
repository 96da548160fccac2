"""A trained model finds what is hidden, and guesses nothing."""

from pathlib import Path

import pytest

from posenc.extend.cells import Cell, Lengths
from posenc.extend.material import Material
from posenc.extend.measures import MEASURES
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
