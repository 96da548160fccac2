"""What layers of one forward pass share: the positions of a cache, and lowered terms."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from posenc.caches.cache import Cache
from posenc.encoding import Encoding
from posenc.errors import ShapeError
from posenc.lowering import Lowered, lower
from posenc.positions import Positions, as_positions


class SharedTerms:
    """Positions and terms of one forward: each made once for all layers of a kind.

    Layers are of a kind, which the caller numbers as it likes, where their encodings are the same
    objects and their caches alike.
    """

    def __init__(
        self, count: int, positions: Positions | Tensor | None, caches: Sequence[Cache] | None
    ) -> None:
        self.count, self.positions, self.caches = count, positions, caches
        self.placed: dict[object, Positions] = {}
        self.lowered: dict[object, Lowered] = {}

    def place(self, layer: int, kind: tuple[int, ...], **told: Any) -> Positions:
        """Where the tokens and all keys of this layer are; told as `Cache.place` is."""
        keys = self._keys(layer, kind)
        if keys not in self.placed:
            if self.caches is None:
                self.placed[keys] = as_positions(self.positions, self.count, **told)
            else:
                self.placed[keys] = self.caches[layer].place(self.count, self.positions, **told)
        return self.placed[keys]

    def lower(
        self,
        layer: int,
        kind: tuple[int, ...],
        parts: Sequence[Encoding],
        positions: Positions,
        dtype: torch.dtype,
    ) -> Lowered:
        """The terms of these encodings at the positions of this layer."""
        key = kind, self._keys(layer, kind)
        if key not in self.lowered:
            prerotated = self.caches is not None and self.caches[layer].policy == "rotated"
            self.lowered[key] = lower(parts, positions, dtype=dtype, keys_prerotated=prerotated)
        return self.lowered[key]

    def _keys(self, layer: int, kind: tuple[int, ...]) -> object:
        """What tells apart layers whose keys are others."""
        if self.caches is None:
            return None
        cache = self.caches[layer]
        # Not by how many are held, which would bind a graph to that.
        held = type(cache), cache.policy, cache.length
        # Elsewhere all tokens are there, whatever a layer sees of them.
        return held if cache.complete else (*held, kind)


def check_caches(caches: Sequence[Cache], depth: int) -> None:
    """Raise ShapeError for caches that are not one per layer."""
    different = len({id(cache) for cache in caches})
    if len(caches) != depth or different < len(caches):
        raise ShapeError(
            f"Transformer has {depth} layers, but {len(caches)} caches were "
            f"given, {different} of them different: use one Cache per layer"
        )
