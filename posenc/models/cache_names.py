"""What transformers calls a cache: past_key_values, and from version 5.24 on cache."""

from collections.abc import Mapping
from inspect import signature
from typing import Any


def cache_of(told: Mapping[str, Any]) -> Any:
    """The cache among what transformers' code is given or returns, or None."""
    return told.get("cache", told.get("past_key_values"))


def given_cache(model: Any, cache: Any) -> dict[str, Any]:
    """The cache as an argument of this model, by the name that it does not warn of."""
    named = "cache" if "cache" in signature(model.forward).parameters else "past_key_values"
    return {named: cache}
