"""posenc's caches where transformers looks for its own.

Letters: b batch, g key heads, t new tokens, d head dimension.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import Cache as TheirCache
from transformers.cache_utils import CacheLayerMixin

from posenc.caches.cache import Cache
from posenc.errors import CacheError


class LayerCache(CacheLayerMixin):
    """The cache of one layer, which posenc's attention appends to when it attends."""

    def __init__(self, own: Cache) -> None:
        super().__init__()
        self.own, self.seen = own, 0
        self.is_initialized = True

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing: posenc's cache makes its memory when it is given tokens."""

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **told: object
    ) -> tuple[Tensor, Tensor]:
        """The new keys (b, g, t, d) and values, as they are."""
        self.seen += key_states.shape[-2]
        return key_states, value_states

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.seen + query_length, 0

    def get_seq_length(self) -> int:
        return self.seen

    def get_max_length(self) -> int:
        return -1 if self.own.length is None else self.own.length

    def reset(self) -> None:
        self.own.reset()
        self.seen = 0

    def crop(self, tokens_to_remove: int) -> None:
        """Forget the last tokens, of which transformers gives the count below zero."""
        if tokens_to_remove:
            # Which may refuse it.
            self.own.truncate(self.seen - abs(tokens_to_remove))
            self.seen -= abs(tokens_to_remove)

    def reorder_cache(self, beam_idx: Tensor) -> None:
        self._take(beam_idx)

    def batch_select_indices(self, indices: Tensor) -> None:
        self._take(indices)

    def batch_repeat_interleave(self, repeats: int) -> None:
        if self.own.k is not None:
            rows = torch.arange(self.own.k.shape[0], device=self.own.k.device)
            self._take(rows.repeat_interleave(repeats))

    def _take(self, rows: Tensor) -> None:
        if self.own.k is not None:
            self.own.reorder(rows.to(self.own.k.device, torch.int64))


class PosencCache(TheirCache):
    """A cache of transformers whose layers are posenc's, such as a RollingCache with sinks.

    model must have posenc; make gives the cache of one layer, or is a list with one for each, as
    `posenc.layers(...).caches()` makes it where layers differ. Where keys are to be turned as the
    cache has them, and not as they came, attach with raw_keys=True. Raises CacheError for a list of
    another length.

    Example:

        posenc.attach(model, raw_keys=True)
        model.generate(**inputs, past_key_values=PosencCache(model, lambda: Cache("raw")))
    """

    def __init__(self, model: Any, make: Callable[[], Cache] | Sequence[Cache] = Cache) -> None:
        count = model.config.get_text_config().num_hidden_layers
        caches = [make() for _ in range(count)] if callable(make) else list(make)
        if len(caches) != count:
            raise CacheError(
                f"PosencCache of {len(caches)} caches for a model of {count} layers: give one for "
                "each"
            )
        super().__init__(layers=[LayerCache(cache) for cache in caches])

    def of_layer(self, number: int) -> Cache:
        """posenc's own cache of this layer."""
        layer = self.layers[number]
        assert isinstance(layer, LayerCache)
        return layer.own
