"""posenc's caches where transformers looks for its own.

Letters: b batch, g key heads, t new tokens, d head dimension.
"""

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from transformers import Cache as TheirCache
from transformers.cache_utils import CacheLayerMixin

from posenc.caches.cache import Cache
from posenc.caches.static import StaticCache
from posenc.errors import CacheError
from posenc.models.attach.sight import Plan, Sight, placed_at
from posenc.positions import Positions


class LayerCache(CacheLayerMixin):
    """The cache of one layer, which posenc's attention appends to when it attends."""

    def __init__(self, own: Cache) -> None:
        super().__init__()
        self.own, self.seen = own, 0
        # Which tokens are no padding (1|b, slots), as a mask said last; later ones are none.
        self.valid: Tensor | None = None
        self.is_initialized = True

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing: posenc's cache makes its memory when it is given tokens."""

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **told: object
    ) -> tuple[Tensor, Tensor]:
        """The new keys (b, g, t, d) and values, as they are."""
        self.seen += key_states.shape[-2]
        return key_states, value_states

    def told(self, sight: Sight, plan: Plan) -> Positions | None:
        """Positions of all tokens so far; None where the own cache counts on from what it holds.

        It counts on unless it is empty, or padding is another than it was told of. Raises
        PositionsError where an encoding reads positions and position_ids do not count on, and
        CacheError for such padding in a StaticCache.
        """
        if len(self.own) and sight.padded_as(self.valid):
            ids = plan.passes.given.ids
            if ids is not None and plan.reads_positions and not sight.counted:
                placed_at(self.own.place(sight.positions.q_len, causal=True), ids)
                sight.counted = True
            return None
        if len(self.own) and isinstance(self.own, StaticCache):
            raise CacheError(
                f"{self.own!r}: attention_mask tells of padding that the prompt did not have, and "
                "its slots are placed by the prompt; pad the prompt alone, or give posenc.Cache()"
            )
        self.valid = sight.positions.keys.valid
        return sight.placed(plan)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.seen + query_length, 0

    def get_seq_length(self) -> int:
        return self.seen

    def get_max_length(self) -> int:
        return -1 if self.own.length is None else self.own.length

    def reset(self) -> None:
        self.own.reset()
        self.seen, self.valid = 0, None

    def crop(self, tokens_to_remove: int) -> None:
        """Forget the last tokens, of which transformers gives the count below zero."""
        if tokens_to_remove:
            # Which may refuse it.
            self.own.truncate(self.seen - abs(tokens_to_remove))
            self.seen -= abs(tokens_to_remove)
            if self.valid is not None:
                self.valid = self.valid[:, : self.seen]

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
            rows = rows.to(self.own.k.device, torch.int64)
            self.own.reorder(rows)
            if self.valid is not None:
                self.valid = self.valid[rows]


class PosencCache(TheirCache):
    """A cache of transformers whose layers are posenc's, such as a RollingCache with sinks.

    model must have posenc; make gives the cache of one layer, or is a list with one for each, as
    `posenc.layers(...).caches()` makes it where layers differ. Where keys are to be turned as the
    cache has them, and not as they came, attach with raw_keys=True. Raises CacheError for a list of
    another length, and for a model that runs layers several times over (Dory), each time with keys
    of their own.

    Example:

        posenc.attach(model, raw_keys=True)
        # Before transformers 5.24 the argument is called past_key_values.
        model.generate(**inputs, cache=PosencCache(model, lambda: Cache("raw")))
    """

    def __init__(self, model: Any, make: Callable[[], Cache] | Sequence[Cache] = Cache) -> None:
        if any("cache_offset" in signature(x.forward).parameters for x in model.modules()):
            raise CacheError(
                f"PosencCache({type(model).__name__}): its code runs layers several times over, "
                "each time with keys of their own, and posenc's caches hold those of one time; "
                "leave the cache to transformers"
            )
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
