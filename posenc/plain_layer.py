"""Terms that were lowered once, in one layer after the other: what was asked is not asked again.

Whether tensors fit the terms, and what computes them, follows from their shapes and dtypes and from
the terms alone, which are the same in each layer of a forward.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from posenc.backends.backend import Call, NextLayer
from posenc.lowering import Lowered
from posenc.torch_modes import autocasts, fitting, plain


class Layer(NamedTuple):
    """What a layer asks of lowered terms, whatever the values of its tensors.

    device   -1 is a CPU, others are GPUs by number
    backend  by name, or "auto"
    """

    q: torch.Size
    k: torch.Size
    v: torch.Size
    dtypes: tuple[torch.dtype, torch.dtype, torch.dtype]
    device: int
    differentiates: bool
    learns: bool
    causal: bool | None
    scale: float | None
    backend: str


def layer_of(
    q: Tensor, k: Tensor, v: Tensor, causal: bool | None, scale: float | None, backend: str
) -> Layer | None:
    """What this layer asks; None where that alone does not tell how it is computed."""
    if torch.compiler.is_compiling():
        return None
    if q.is_cpu and k.is_cpu and v.is_cpu:
        # Here backends are named to be compared, and the latest alone is kept.
        if backend != "auto":
            return None
        device = -1
    elif q.is_cuda and k.is_cuda and v.is_cuda:
        device = q.get_device()
        if not device == k.get_device() == v.get_device():
            return None
    else:
        return None
    if not plain(q, k, v) or autocasts("cpu" if device < 0 else "cuda"):
        return None
    grads = torch.is_grad_enabled()
    learns = grads and (q.requires_grad or k.requires_grad or v.requires_grad)
    dtypes = q.dtype, k.dtype, v.dtype
    return Layer(q.shape, k.shape, v.shape, dtypes, device, grads, learns, causal, scale, backend)


def as_before(q: Tensor, k: Tensor, v: Tensor, lowered: Lowered, layer: Layer) -> Tensor | None:
    """What `attend` returns where the last layer with these terms asked the same; else None."""
    known = lowered.__dict__.get("_layer")
    if known is None or known[0] != layer:
        return None
    _, run, scale, alike = known
    if alike is not None:
        return alike(q, k, v)
    return run(fitting(Call, q=q, k=k, v=v, lowered=lowered, scale=scale, dropout=0.0))


def remember(
    layer: Layer,
    call: Call,
    run: Callable[[Call], Tensor],
    next_layer: Callable[[Call], NextLayer | None],
) -> None:
    """Keep for the layers to come what was found out in this one."""
    form = call.form
    # Whether a GPU takes biases that learn at such positions, these may tell after they were asked.
    if layer.device >= 0 and form.by_distance and not form.plain:
        return
    # `run` alone does what is done around a backend, and what learns is read anew in each layer.
    learns = layer.differentiates and (layer.learns or any(x.requires_grad for x in form.tensors))
    around = form.transform is not None or form.value_rotation is not None
    alike = None if layer.device >= 0 or learns or around else next_layer(call)
    call.lowered.__dict__["_layer"] = layer, run, call.scale, alike
