"""Whether a gradient's memory may be written over: only where nobody else can ever read it.

Autograd hands gradients to several readers at once: both sides of a sum, hooks, whoever asked for
them. Every holder counts, in Python or in C++; a gradient that nobody else holds is found by its
counts being those of one that was made for this purpose.
"""

import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

Counts = tuple[int, int, int]


def holders(grads: Sequence[Tensor]) -> list[Counts]:
    """How many references each tensor has in Python, in C++, and its memory among tensors."""
    return [
        (
            sys.getrefcount(grad),
            # Hidden in its stubs, as what it counts is torch's own affair.
            getattr(grad, "_use_count")(),  # noqa: B009
            torch._C._storage_Use_Count(grad.untyped_storage()._cdata),
        )
        for grad in grads
    ]


def holders_of_one() -> Counts | None:
    """What `backward` counts of a gradient with one reader; None where torch cannot tell."""
    if not hasattr(Tensor, "_use_count"):
        return None
    found: list[Counts] = []
    with torch.enable_grad():
        leaf = torch.zeros(1, requires_grad=True)
        (_Probe.apply(found, leaf) * 2.0).backward()
    return found[0]


class _Probe(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, found: list[Counts], x: Tensor) -> Tensor:
        ctx.found = found
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor]:
        ctx.found += holders(grads)
        return None, grads[0]
