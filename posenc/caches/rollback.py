"""Calls that fail leave caches as they were."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType

import torch

from posenc.caches.cache import Cache


def unchanged_on_error(caches: Sequence[Cache]) -> AbstractContextManager[None]:
    """Within it, an error takes back what was appended; a graph, which catches none, ignores it."""
    return nullcontext() if torch.compiler.is_compiling() else _Restoring(caches)


class _Restoring(AbstractContextManager[None]):
    def __init__(self, caches: Sequence[Cache]) -> None:
        self.states = [(cache, cache.saved()) for cache in caches]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for cache, state in self.states if kind else ():
            cache.restore(state)
