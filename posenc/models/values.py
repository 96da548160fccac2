"""What a configuration holds, as dicts and lists that can be changed."""

from collections.abc import Mapping
from typing import Any

from posenc.errors import ConfigError


def plain_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """A copy in which every mapping is a dict and every tuple a list, as in JSON.

    Whatever else it holds, such as a torch.dtype, stays the same object. Raises ConfigError for
    what holds itself, or is nested deeper than any configuration.
    """
    try:
        return {key: _plain(value) for key, value in values.items()}
    except RecursionError:
        raise ConfigError(
            "the configuration holds itself, or is nested too deep: give it as its file has it"
        ) from None


def _plain(value: object) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(x) for key, x in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(x) for x in value]
    return value
