"""What transformers calls a cache: past_key_values, and from version 5.24 on cache."""

from collections.abc import Mapping
from inspect import signature
from typing import Any

from torch import nn

_NAMES = "cache", "past_key_values"


def cache_of(told: Mapping[str, Any]) -> Any:
    """The cache among what transformers' code is given or returns, or None."""
    return told.get("cache", told.get("past_key_values"))


def given_cache(model: nn.Module, cache: Any) -> dict[str, Any]:
    """The cache as an argument of this model, by the name that it does not warn of.

    What wraps a model (peft's, DistributedDataParallel's) names neither, and hands on what it gets.
    """
    for module in model.modules():
        known = signature(module.forward).parameters
        for name in _NAMES:
            if name in known:
                return {name: cache}
    return {_NAMES[-1]: cache}
