"""Calls that fail leave caches as they were."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from posenc.caches.cache import Cache


def unchanged_on_error(caches: Sequence[Cache]) -> AbstractContextManager[None]:
    """Within it, an error takes back what was appended; a graph, which catches none, ignores it."""
    return nullcontext() if torch.compiler.is_compiling() else _restoring(caches)


@contextmanager
def _restoring(caches: Sequence[Cache]) -> Iterator[None]:
    states = [cache.saved() for cache in caches]
    try:
        yield
    except BaseException:
        for cache, state in zip(caches, states, strict=True):
            cache.restore(state)
        raise
