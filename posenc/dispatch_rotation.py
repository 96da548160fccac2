"""Tensors rotated by cos and sin, q and k at once: by Triton on NVIDIA GPUs, else by the C kernel.

Both fall back to PyTorch where they do not fit; `posenc.rotation.rotate_pairs` is what they mean.
"""

from collections.abc import Sequence
from importlib.util import find_spec

import torch
from torch import Tensor

from posenc.native import rotary_ops
from posenc.native.rotary_ops import check_inplace as check_inplace
from posenc.terms import Layout

Tensors = Sequence[Tensor]


def rotated(
    x: Tensors, cos: Tensors, sin: Tensors, layout: Layout, start: int = 0
) -> Sequence[Tensor]:
    """Each x (b, h, t, d) with its pairs rotated, in its own dtype; arithmetic in that of cos.

    cos, sin  of each x, (1|b, 1|h, t, r)
    """
    if x[0].is_cuda and _suits_triton(cos):
        return _by_triton(x, cos, sin, layout, start)
    return rotary_ops.rotated(x, cos, sin, layout, start)


def rotated_(
    x: Tensors, cos: Tensors, sin: Tensors, layout: Layout, start: int = 0
) -> Sequence[Tensor]:
    """The same, written into x.

    Allowed for tensors that need no gradient, views among them, and for those that do where they
    are results (no leaves) and no views: autograd then sees that they changed.

    Raises UnsupportedError for others.
    """
    if x[0].is_cuda and _suits_triton(cos):
        check_inplace(*x)
        made = rotated(x, cos, sin, layout, start)
        return [one.copy_(new) for one, new in zip(x, made, strict=True)]
    return rotary_ops.rotated_(x, cos, sin, layout, start)


def _by_triton(
    x: Tensors, cos: Tensors, sin: Tensors, layout: Layout, start: int
) -> Sequence[Tensor]:
    # Triton is there only for who has a GPU, and takes its time to import.
    from posenc.triton.rotary import turn

    q, k = (x[0], None) if len(x) == 1 else x
    waves = list(zip(cos, sin, strict=True))
    both = turn(q, k, waves[0], waves[-1] if k is not None else None, layout, start)
    return [one for one in both if one is not None]


def _suits_triton(cos: Tensors) -> bool:
    """Whether a kernel is launched: a compiler fuses what it is given, and does without."""
    if torch.compiler.is_compiling() or find_spec("triton") is None:
        return False
    return not (torch.is_grad_enabled() and any(one.requires_grad for one in cos))
