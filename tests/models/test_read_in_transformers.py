"""Frequencies that are read equal those that transformers builds of the same configuration."""

import pytest

from posenc.models.read import read
from posenc.models.read.families import FAMILIES
from tests.support.published import rotary_module

transformers = pytest.importorskip("transformers")

ROTARY = sorted(name for name in FAMILIES if name in transformers.CONFIG_MAPPING)


@pytest.mark.parametrize("name", ROTARY)
def test_silent_values_are_those_of_transformers(name: str) -> None:
    """A file that names sizes alone is read as transformers reads it."""
    whole = transformers.CONFIG_MAPPING[name]().to_dict()
    spec = read(whole)
    module = rotary_module(whole)
    turning = {layer.rotary: layer for layer in spec.layers if layer and layer.rotary}
    assert bool(turning) == (module is not None)
