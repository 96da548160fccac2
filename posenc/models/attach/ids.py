"""position_ids of a forward pass, where they say more than the slots of a cache do."""

from typing import Any

import torch
from torch import Tensor, nn

from posenc.errors import PositionsError
from posenc.models.attach.sight import Given


class ReadIds:
    """A forward pre-hook of the model's body, which tells its layers where their tokens are.

    Without a cache position_ids may be anything. With one, those of earlier tokens are forgotten,
    and these must count on from them: PositionsError where they do not.
    """

    def __init__(self, given: Given) -> None:
        self.given = given

    def __call__(self, module: nn.Module, args: tuple[Any, ...], told: dict[str, Any]) -> None:
        ids, cache = told.get("position_ids"), told.get("past_key_values")
        self.given.ids = None
        self.given.cache = cache if hasattr(cache, "of_layer") else None
        if ids is None or ids.ndim != 2:
            return
        if torch.compiler.is_compiling():
            self.given.ids = ids if cache is None else None
            return
        past = 0 if cache is None else int(cache.get_seq_length())
        if _counts_on(ids, past, told.get("attention_mask")):
            return
        if cache is not None:
            raise PositionsError(
                f"position_ids {ids.tolist()} behind {past} cached tokens: an encoding that reads "
                "distances takes tokens of a cache to be counted one by one; pass none, or no cache"
            )
        self.given.ids = ids


def _counts_on(ids: Tensor, past: int, attention_mask: Tensor | None) -> bool:
    """Whether real tokens are at their slots, up to one number for each row."""
    slots = torch.arange(ids.shape[1], device=ids.device) + past
    apart = ids - slots
    if not isinstance(attention_mask, Tensor) or attention_mask.ndim != 2:
        return bool((apart == apart[:, -1:]).all()) if past == 0 else bool((apart == 0).all())
    mask = attention_mask.bool().to(ids.device)
    start = (mask.cumsum(-1) == 0).sum(-1, keepdim=True)
    real = mask[:, past : past + ids.shape[1]]
    return bool(((apart + start == 0) | ~real).all())
