"""Tensors rotated by cos and sin, q and k at once: by Triton on NVIDIA GPUs, else by the C kernel.

Both fall back to PyTorch where they do not fit; `posenc.rotation.rotate_pairs` is what they mean.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from posenc.native import rotary_ops
from posenc.native.rotary_ops import check_inplace as check_inplace
from posenc.terms import Layout
from posenc.triton import INSTALLED

Tensors = Sequence[Tensor]


def rotated(
    x: Tensors,
    cos: Tensors,
    sin: Tensors,
    layout: Layout,
    start: int = 0,
    owner: Any = None,
) -> Sequence[Tensor]:
    """Each x (b, h, t, d) with its pairs rotated, in its own dtype; arithmetic in that of cos.

    cos, sin  of each x, (1|b, 1|h, t, r)
    owner     what cos and sin belong to, which keeps a GPU's launch for the next layer
    """
    if _suits_triton(x, cos):
        # Triton takes its time to import, which only calls on a GPU need.
        from posenc.triton import rotary

        return rotary.rotated(x, cos, sin, layout, start, owner)
    return rotary_ops.rotated(x, cos, sin, layout, start)


def rotated_(
    x: Tensors, cos: Tensors, sin: Tensors, layout: Layout, start: int = 0
) -> Sequence[Tensor]:
    """The same, written into x.

    Allowed for tensors that need no gradient, views among them, and for those that do where they
    are results (no leaves) and no views: autograd then sees that they changed.

    Raises UnsupportedError for others.
    """
    if _suits_triton(x, cos):
        from posenc.triton import rotary

        check_inplace(*x)
        return rotary.rotated_(x, cos, sin, layout, start)
    return rotary_ops.rotated_(x, cos, sin, layout, start)


def _suits_triton(x: Tensors, cos: Tensors) -> bool:
    """Whether a kernel is launched: a compiler fuses what it is given, and does without."""
    if not (x[0].is_cuda and INSTALLED) or torch.compiler.is_compiling():
        return False
    return not (torch.is_grad_enabled() and any(one.requires_grad for one in cos))
