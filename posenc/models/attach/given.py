"""position_ids and caches of a forward pass, for the layers that need to know of them."""

from typing import Any

from torch import nn

from posenc.models.attach.sight import Given


class ReadGiven:
    """A forward pre-hook of the model's body, which keeps what its layers are not told."""

    def __init__(self, given: Given) -> None:
        self.given = given

    def __call__(self, module: nn.Module, args: tuple[Any, ...], told: dict[str, Any]) -> None:
        ids, cache = told.get("position_ids"), told.get("past_key_values")
        # Those of several axes are read where the model turns by them.
        self.given.ids = ids if ids is not None and ids.ndim == 2 else None
        self.given.cache = cache if hasattr(cache, "of_layer") else None
