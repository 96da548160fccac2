"""Which memory a kernel may write into, and what it makes for itself.

Of tensors, what PyTorch's own operators ask before they write: that no element shares its memory.
Of gradients, that nobody else can ever read them: autograd hands them to several readers at once,
both sides of a sum, hooks, whoever asked for them. Every holder counts, in Python or in C++; a
gradient without another is found by its counts being those of one that was made for this purpose.
"""

import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

Counts = tuple[int, int, int]


def writable(*tensors: Tensor) -> bool:
    """Whether every element of these tensors is known to have memory of its own."""
    for x in tensors:
        if not x.is_contiguous() and not _injective(x):
            return False
    return not any(_meet(x, y) for i, x in enumerate(tensors) for y in tensors[:i])


def like_rows(x: Tensor) -> Tensor:
    """Room for another x, laid out alike, in which a head's dimensions lie side by side.

    Of strides that overlap, as unfold makes them, torch may take another order.
    """
    out = torch.empty_like(x)
    return out if out.stride(-1) == 1 else x.new_empty(x.shape)


def _injective(x: Tensor) -> bool:
    """Whether each dimension steps over all that lies within it."""
    inner = 1
    for stride, size in sorted((s, n) for s, n in zip(x.stride(), x.shape, strict=True) if n > 1):
        if stride < inner:
            return False
        inner += stride * (size - 1)
    return True


def _meet(x: Tensor, y: Tensor) -> bool:
    """Whether x and y may share an element: a "no" is certain, a "yes" is not."""
    shift = y.data_ptr() - x.data_ptr()
    if shift < 0:
        x, y, shift = y, x, -shift
    if x.is_contiguous() and shift >= x.nbytes:
        return False
    shift, rest = divmod(shift, x.element_size())
    if shift >= _span(x.stride(), x.shape):
        return False
    if rest or x.stride() != y.stride() or x.dtype != y.dtype:
        return True
    # Slices of one tensor, as of a fused projection: their distance, seen in the steps of some
    # dimension, leaves room for all that lies within one step of either.
    strides = x.stride()
    for step in strides:
        outer = [stride for stride in strides if stride > step]
        inner = [axis for axis, stride in enumerate(strides) if stride < step]
        of_x, of_y = (
            _span([strides[axis] for axis in inner], [one.shape[axis] for axis in inner])
            for one in (x, y)
        )
        regular = step > 0 and all(stride % step == 0 for stride in outer)
        if regular and of_x <= shift % step <= step - of_y:
            return False
    return True


def _span(strides: Sequence[int], sizes: Sequence[int]) -> int:
    """How many elements lie between the first and the last, both included."""
    return 1 + sum(stride * (size - 1) for stride, size in zip(strides, sizes, strict=True))


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
    counts: list[Counts] = []
    with torch.enable_grad():
        leaf = torch.zeros(1, requires_grad=True)
        (_Probe.apply(counts, leaf) * 2.0).backward()
    return counts[0]


class _Probe(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, counts: list[Counts], x: Tensor) -> Tensor:
        ctx.counts = counts
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor]:
        ctx.counts += holders(grads)
        return None, grads[0]
