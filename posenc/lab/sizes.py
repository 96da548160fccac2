"""Sizes of our Transformer by name: about so many parameters, with a table of bytes."""

from typing import NamedTuple

from posenc.errors import UnknownNameError


class Size(NamedTuple):
    """Width, layers and heads."""

    dim: int
    depth: int
    heads: int


SIZES = {
    "30k": Size(32, 2, 4),
    "300k": Size(64, 6, 4),
    "1m": Size(128, 5, 4),
    "10m": Size(320, 8, 5),
    "30m": Size(512, 10, 8),
    "125m": Size(896, 13, 14),
}


def size_of(name: str) -> Size:
    """Raises UnknownNameError for a name that there is not."""
    if name not in SIZES:
        raise UnknownNameError("size", name, SIZES)
    return SIZES[name]
