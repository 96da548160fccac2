"""Layers that share lowered terms: what a launch is told beside q, k and v is made for the first.

Biases in units of log 2, their lists of tiles, and the launches themselves are kept with the normal
form, where no sink and no offset learns.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from posenc.normal_form.form import NormalForm
from posenc.torch_modes import kept_for, plain
from posenc.triton import decoding, in_32_bits
from posenc.triton.attention import attend, gradients
from posenc.triton.kernel_args import LOG2_E, Inputs
from posenc.triton.launch import Launch, facts
from posenc.triton.launches import BackwardPass, forward_launch


def attended(
    form: NormalForm,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float,
    inputs: Callable[[], Inputs],
    table: Callable[[], Tensor | None],
) -> Tensor:
    """out (b, h, tq, e) of what `inputs` makes of q, k, v, this form and this scale.

    table  the biases that learn, as `inputs` has them
    """
    if torch.compiler.is_compiling():
        return attend(inputs())
    tensors, grads = _tensors(form), torch.is_grad_enabled()
    if not plain(q, k, v, *tensors):
        return attend(inputs())
    learns = grads and any(x.requires_grad for x in tensors)
    if learns and any(x.requires_grad for x in _beside_distance(form)):
        return attend(inputs())
    settings = facts(q, k, v), scale, learns
    layer = kept_for(form, "_triton", settings, lambda: _Layer(inputs()), tensors)
    if not layer.keeps:
        return attend(inputs())
    if learns:
        return _Attend.apply(layer, table(), q, k, v)
    if grads and (q.requires_grad or k.requires_grad or v.requires_grad):
        return _Attend.apply(layer, None, q, k, v)
    return layer.forward(q, k, v)[0]


def _beside_distance(form: NormalForm) -> list[Tensor]:
    """What may learn beside tables and slopes."""
    offsets = () if form.offsets is None else (form.offsets.q, form.offsets.k)
    return [x for x in (form.sink, *offsets) if x is not None]


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
        # No graph of a table that learns.
        x = x if x.table is None else x._replace(table=x.table.detach())
        self.rest, self.exact = x[3:], x.exact
        # In float64 q is scaled before the launch.
        self.keeps = x.q.dtype != torch.float64 and x.q.numel() > 0
        self.simple = x.sink is None and x.k_offset is None
        # What the gradient reads, so that autograd knows whether somebody wrote to it.
        told = x.table, x.past, x.future, x.sink, x.q_offset, x.k_offset, *x.places, *x.lists
        self.read = tuple([one for one in told if one is not None])
        self.one = decoding.OneQuery(x) if self.keeps and decoding.fits(x) else None
        self.launch: Launch | None = None
        self.back: tuple[Any, BackwardPass] | None = None

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
        self, dout: Tensor, out: Tensor, lse: Tensor, q: Tensor, k: Tensor, v: Tensor, table: bool
    ) -> tuple[Tensor | None, ...]:
        """The gradients of the table, where it is asked for, and of q, k and v."""
        # Which those who move what autograd saves may have changed.
        lse = lse.contiguous()
        dq, dk, dv, delta = (torch.empty_like(x) for x in (q, k, v, lse))
        like, written = (facts(dout, out, lse, q, k, v), table), (out, dout, dq, dk, dv)
        if self.back is None or self.back[0] != like:
            x = self.inputs(q, k, v)
            scales = x.scale * LOG2_E, x.scale
            self.back = like, BackwardPass(x, written, scales, lse=False, table=table)
        passed = self.back[1]
        sums = passed(q, k, v, *written, lse, lse, delta, lse)
        dtable = None if passed.table is None else passed.table.gradient(*sums, None)
        return dtable, dq, dk, dv


class _Attend(torch.autograd.Function):
    """As the operator, of a table that learns (or None), q, k and v alone."""

    @staticmethod
    def forward(
        ctx: Any, layer: _Layer, table: Tensor | None, q: Tensor, k: Tensor, v: Tensor
    ) -> Tensor:
        out, lse = layer.forward(q, k, v)
        ctx.layer = layer
        ctx.save_for_backward(out, lse, q, k, v, *layer.read)
        return out

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> tuple[Tensor | None, ...]:
        layer, dout = ctx.layer, in_32_bits(given[0])
        out, lse, q, k, v, *_ = ctx.saved_tensors
        learns = ctx.needs_input_grad[1]
        watched = torch.is_grad_enabled() or torch.compiler.is_compiling()
        if layer.simple and not watched and plain(dout, out, lse, q, k, v):
            return None, *layer.backward(dout, out, lse, q, k, v, learns)
        grads = gradients(dout, out, lse, None, learns, q, k, v, *layer.rest)
        return None, grads[3] if learns else None, *grads[:3]
