"""What inspect.json says, in sentences."""

from collections.abc import Mapping
from typing import Any


def sentences(data: Mapping[str, Any]) -> list[str]:
    """The summary of a page and of the command."""
    return [f"{data['model']['type']}, {data['model']['layers']} layers"]
