"""Caches are found and given by the name that this version of transformers has for them."""

from typing import Any

import pytest
from torch import nn

from posenc.models.attach.given import ReadGiven
from posenc.models.attach.sight import Passes
from posenc.models.cache_names import cache_of, given_cache


class Older(nn.Module):
    def forward(self, input_ids: Any, past_key_values: Any = None) -> None: ...


class Newer(nn.Module):
    """From transformers 5.24 on."""

    def forward(self, input_ids: Any, cache: Any = None) -> None: ...


class Wrapped(nn.Module):
    """As peft and DistributedDataParallel have a model."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Newer()

    def forward(self, *args: Any, **told: Any) -> None: ...


@pytest.mark.parametrize(
    ("model", "name"), [(Older(), "past_key_values"), (Newer(), "cache"), (Wrapped(), "cache")]
)
def test_a_cache_goes_by_the_name_that_a_model_has(model: Any, name: str) -> None:
    kept = object()
    assert given_cache(model, kept) == {name: kept}
    assert cache_of({"input_ids": None, name: kept}) is kept
    assert cache_of({"input_ids": None}) is None


class OfLayers:
    """As much of a PosencCache as is asked for."""

    of_layer = None


@pytest.mark.parametrize("model", [Older(), Newer()])
@pytest.mark.parametrize("by_name", [True, False])
def test_layers_are_told_of_either(model: Any, by_name: bool) -> None:
    passes, cache = Passes(), OfLayers()
    hook: Any = ReadGiven(passes, model)
    model.config = None
    hook(model, () if by_name else (None, cache), given_cache(model, cache) if by_name else {})
    assert passes.given.cache is cache
