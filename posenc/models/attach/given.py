"""position_ids and caches of a forward pass, for the layers that need to know of them."""

from inspect import signature
from typing import Any

from torch import Tensor, nn

from posenc.models.attach.sight import Given
from posenc.positions.from_batch import runs


class ReadGiven:
    """A forward pre-hook of the model's body, which keeps what its layers are not told."""

    def __init__(self, given: Given, module: nn.Module) -> None:
        self.given = given
        self.names = tuple(signature(module.forward).parameters)

    def __call__(self, module: nn.Module, args: tuple[Any, ...], told: dict[str, Any]) -> None:
        told = dict(zip(self.names, args, strict=False)) | told
        ids, cache = told.get("position_ids"), told.get("past_key_values")
        self.given.ids = self.given.documents = self.given.before = None
        mask = told.get("attention_mask")
        # Where the mask is the user's own, nobody else says where in a cache its queries stand.
        if cache is not None and isinstance(mask, Tensor) and mask.ndim == 4:
            # A copy, for a static cache counts on in place.
            self.given.before = cache.get_seq_length() + 0
        self.given.cache = cache if hasattr(cache, "of_layer") else None
        if ids is None:
            return
        # Of images in text; where there are four axes, the first is that of the text alone.
        self.given.ids = ids[-3:].movedim(0, -1) if ids.ndim == 3 else ids
        # transformers reads documents off them too, but not where the model makes itself a cache,
        # as it does unless it is told use_cache=False, and in some models (gpt-oss, OPT) never.
        if ids.ndim == 2 and cache is None and mask is None:
            self.given.documents = runs(ids)
