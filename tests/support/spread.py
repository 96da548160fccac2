"""Fewer examples of a product: every two values of different axes still meet."""

from collections.abc import Iterable
from typing import Any


def spread(*axes: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Of all combinations of three axes, those where the last one takes its values in turn.

        spread(MODELS, CHUNKS, CACHES)      as many as of models and chunks alone

    Every two values of two axes are in one of them. That asks for a last axis that is no longer
    than the others.
    """
    first, second, third = map(list, axes)
    assert len(third) <= min(len(first), len(second)), "the last axis is the shortest"
    return [
        (one, two, third[(i + j) % len(third)])
        for i, one in enumerate(first)
        for j, two in enumerate(second)
    ]
