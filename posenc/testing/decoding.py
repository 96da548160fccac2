"""Whether a model decodes with a cache what it says at once, and with which one."""

import torch
from torch import Tensor

from posenc.caches.cache import POLICIES, Cache, Policy
from posenc.errors import CacheError
from posenc.model import Transformer

# How far apart two ways to the same numbers may be, in float64.
NEAR = 1e-9


@torch.no_grad()
def decodes(model: Transformer, tokens: Tensor, length: int | None = None) -> Policy | None:
    """The first cache policy with which `tokens`, one by one, come to what they do at once.

    `length` is what caches are told; without it those that depend on the length decode with none.
    """
    expected = model(tokens)
    for policy in POLICIES:
        caches = [Cache(policy, length) for _ in model.blocks]
        try:
            steps = [model(token, caches=caches) for token in tokens.split(1, dim=1)]
        except CacheError:
            continue
        if torch.allclose(torch.cat(steps, dim=1), expected, rtol=0, atol=NEAR):
            return policy
    return None
