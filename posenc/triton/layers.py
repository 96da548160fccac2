"""Layers that share lowered terms: what a launch is told beside q, k and v is made for the first.

Biases in units of log 2, their lists of tiles, and the launches themselves are kept with the normal
form, where no bias learns.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from posenc.normal_form.form import NormalForm
from posenc.torch_modes import kept_for, plain
from posenc.triton import decoding
from posenc.triton.attention import (
    attend,
    forward_launch,
    gradients,
    key_launch,
    lists_of,
    query_launch,
)
from posenc.triton.kernel_args import LOG2_E, Inputs, KernelArgs
from posenc.triton.launch import Launch, facts


def attended(
    form: NormalForm, q: Tensor, k: Tensor, v: Tensor, scale: float, inputs: Callable[[], Inputs]
) -> Tensor:
    """out (b, h, tq, e) of what `inputs` makes of q, k, v, this form and this scale."""
    if torch.compiler.is_compiling() or not plain(q, k, v):
        return attend(inputs())
    tensors, grads = _tensors(form), torch.is_grad_enabled()
    if grads and any(x.requires_grad for x in tensors):
        return attend(inputs())
    settings = facts(q, k, v), scale
    layer = kept_for(form, "_triton", settings, lambda: _Layer(inputs()), tensors)
    if not layer.keeps:
        return attend(inputs())
    if grads and (q.requires_grad or k.requires_grad or v.requires_grad):
        return _Attend.apply(layer, q, k, v)
    return layer.forward(q, k, v)[0]


def _tensors(form: NormalForm) -> tuple[Tensor, ...]:
    """What launches are told of: of plain positions, whose values are not read, biases alone."""
    known = form.__dict__
    if "_told" not in known:
        parts = form.table, form.inside_table, form.slopes, form.inside_slopes, form.offsets
        fields = [x for part in parts if part is not None for x in vars(part).values()]
        biases = tuple([x for x in (*fields, form.sink) if isinstance(x, Tensor)])
        plain = form.plain and form.visibility.chunk is None
        known["_told"] = biases if plain else form.tensors
    return known["_told"]


class _Layer:
    """Launches of one layer and of those like it; it holds no q, k or v."""

    def __init__(self, x: Inputs) -> None:
        self.rest, self.exact = x[3:], x.exact
        # In float64 q is scaled before the launch.
        self.keeps = x.q.dtype != torch.float64 and x.q.numel() > 0
        self.simple = x.sink is None and x.k_offset is None
        # What the gradient reads, so that autograd knows whether somebody wrote to it.
        told = x.table, x.past, x.future, x.sink, x.q_offset, x.k_offset, *x.places, *x.lists
        self.read = tuple([one for one in told if one is not None])
        self.one = decoding.OneQuery(x) if self.keeps and decoding.fits(x) else None
        self.launch: Launch | None = None
        self.back: tuple[Any, Launch, Launch] | None = None

    def inputs(self, q: Tensor, k: Tensor, v: Tensor) -> Inputs:
        return Inputs(q, k, v, *self.rest)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        if self.one is not None:
            return self.one(q, k, v)
        rows = q.shape[:3]
        out, lse = q.new_empty((*rows, v.shape[3])), q.new_empty(rows, dtype=self.exact)
        launch = self.launch
        if launch is None:
            launch = self.launch = forward_launch(self.inputs(q, k, v), out)
        launch(q, k, v, out, lse)
        return out, lse

    def backward(
        self, dout: Tensor, out: Tensor, lse: Tensor, q: Tensor, k: Tensor, v: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        # Which those who move what autograd saves may have changed.
        lse = lse.contiguous()
        dq, dk, dv, delta = (torch.empty_like(x) for x in (q, k, v, lse))
        like = facts(dout, out, lse, q, k, v)
        back = self.back
        if back is None or back[0] != like:
            x = self.inputs(q, k, v)
            args, lists = KernelArgs(x), lists_of(x, backward=True)
            scales = x.scale * LOG2_E, x.scale
            query = query_launch(args, lists, (out, dout, dq), scales)
            keys = key_launch(args, lists, (dout, dk, dv), scales)
            back = self.back = like, query, keys
        _, query, keys = back
        query(q, k, v, out, dout, dq, lse, lse, delta, lse, lse)
        keys(q, k, v, dout, dk, dv, lse, delta, lse)
        return dq, dk, dv


class _Attend(torch.autograd.Function):
    """As the operator, of q, k and v alone."""

    @staticmethod
    def forward(ctx: Any, layer: _Layer, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out, lse = layer.forward(q, k, v)
        ctx.layer = layer
        ctx.save_for_backward(out, lse, q, k, v, *layer.read)
        return out

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> tuple[Tensor | None, ...]:
        layer, (dout,) = ctx.layer, given
        out, lse, q, k, v, *_ = ctx.saved_tensors
        watched = torch.is_grad_enabled() or torch.compiler.is_compiling()
        if layer.simple and not watched and plain(dout, out, lse, q, k, v):
            return None, *layer.backward(dout, out, lse, q, k, v)
        grads = gradients(dout, out, lse, None, False, q, k, v, *layer.rest)
        return None, *grads[:3]
