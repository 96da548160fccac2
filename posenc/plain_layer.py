"""Terms that were lowered once, in one layer after the other: what was asked is not asked again.

Whether tensors fit the terms, and what computes them, follows from their shapes and dtypes and from
the terms alone, which are the same in each layer of a forward.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from posenc.backends.backend import Call
from posenc.lowering import Lowered
from posenc.torch_modes import autocasts, plain


class Layer(NamedTuple):
    """What a layer on a CPU asks of lowered terms, whatever the values of its tensors."""

    q: torch.Size
    k: torch.Size
    v: torch.Size
    dtypes: tuple[torch.dtype, torch.dtype, torch.dtype]
    learns: bool
    causal: bool | None
    scale: float | None


def layer_of(
    q: Tensor, k: Tensor, v: Tensor, causal: bool | None, scale: float | None
) -> Layer | None:
    """What this layer asks; None where that alone does not tell how it is computed."""
    if torch.compiler.is_compiling() or not (q.is_cpu and k.is_cpu and v.is_cpu):
        return None
    if not plain(q, k, v) or autocasts("cpu"):
        return None
    learns = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)
    dtypes = q.dtype, k.dtype, v.dtype
    return Layer(q.shape, k.shape, v.shape, dtypes, learns, causal, scale)


def as_before(q: Tensor, k: Tensor, v: Tensor, lowered: Lowered, layer: Layer) -> Tensor | None:
    """What `attend` returns where the last layer with these terms asked the same; else None."""
    known = lowered.__dict__.get("_layer")
    if known is None or known[0] != layer:
        return None
    _, run, scale = known
    return run(Call(q, k, v, lowered, scale, 0.0))


def remember(layer: Layer, run: Callable[[Call], Tensor], call: Call) -> None:
    """Keep for the layers to come what was found out in this one."""
    # Keys and values of padding are set to zero before a backend is given them.
    if call.form.positions.keys.valid is None:
        call.lowered.__dict__["_layer"] = layer, run, call.scale
