"""The tiled operation as one node of a graph, posenc::blocked, with its gradient.

Graphs see neither the loop over tiles, whose number depends on the length, nor values that are
read to skip tiles.
"""

from typing import Any

import torch
from torch import Tensor

from posenc.backends.blocked.inputs import Inputs, Rows
from posenc.backends.blocked.tiled import backward, forward

_SCHEMA = (
    "(Tensor q, Tensor k, Tensor v, Tensor? read_q, Tensor? read_k, Tensor? table, "
    "Tensor? key_bias, Tensor[] rows, SymInt[] zeros, SymInt[] sides, Tensor? k_order, "
    "Tensor? q_document, Tensor? k_document, Tensor? k_valid, Tensor? seed, float scale, "
    "bool causal, SymInt? window, SymInt sinks, SymInt prefix, float dropout"
)
_LIBRARY = torch.library.Library("posenc", "FRAGMENT")
_LIBRARY.define(f"blocked{_SCHEMA}) -> Tensor")
_LIBRARY.define(f"blocked_backward{_SCHEMA}, Tensor grad, bool of_table) -> Tensor[]")


def attend(inputs: Inputs) -> Tensor:
    """The output of these inputs, by the operation."""
    tables = (inputs.q_rows, inputs.k_rows, inputs.v_rows)
    every = [rows for side in tables for rows in side]
    sides = [at for at, side in enumerate(tables) for _ in side]
    return torch.ops.posenc.blocked(
        inputs.q,
        inputs.k,
        inputs.v,
        inputs.read_q,
        inputs.read_k,
        inputs.table,
        inputs.key_bias,
        [rows.weight for rows in every],
        [rows.zero for rows in every],
        sides,
        inputs.k_order,
        inputs.q_document,
        inputs.k_document,
        inputs.k_valid,
        inputs.seed,
        inputs.scale,
        inputs.causal,
        inputs.window,
        inputs.sinks,
        inputs.prefix,
        inputs.dropout,
    )


def _inputs(given: tuple[Any, ...]) -> Inputs:
    tensors, (weights, zeros, sides), rest = given[:7], given[7:10], given[10:]
    k_order, q_document, k_document, k_valid, seed, scale, causal, *masks, dropout = rest
    window, sinks, prefix = masks

    def of(side: int) -> tuple[Rows, ...]:
        every = zip(weights, zeros, sides, strict=True)
        return tuple(Rows(weight, zero) for weight, zero, at in every if at == side)

    return Inputs(
        *tensors,
        q_rows=of(0),
        k_rows=of(1),
        v_rows=of(2),
        k_order=k_order,
        q_document=q_document,
        k_document=k_document,
        k_valid=k_valid,
        scale=scale,
        causal=causal,
        window=window,
        sinks=sinks,
        prefix=prefix,
        dropout=dropout,
        seed=seed,
    )


def _forward(*given: Any) -> Tensor:
    return forward(_inputs(given))


def _fake_forward(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> Tensor:
    return v.new_empty(*q.shape[:3], v.shape[3])


def _backward(*given: Any) -> list[Tensor]:
    grad, of_table = given[-2:]
    grads = backward(_inputs(given[:-2]), grad, of_table)
    found = [grads.q, grads.k, grads.v, grads.read_q, grads.read_k, grads.table, grads.key_bias]
    found += [*grads.q_rows, *grads.k_rows, *grads.v_rows]
    return [grad for grad in found if grad is not None]


def _fake_backward(*given: Any) -> list[Tensor]:
    *tensors, weights = given[:8]
    if not given[-1]:
        tensors[5] = None
    return [torch.empty_like(x) for x in (*tensors, *weights) if x is not None]


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    tensors, weights, numbers = inputs[:7], inputs[7], inputs[8:]
    # Tensors are saved, and all else kept: in its place a tensor leaves its index.
    flat: list[Tensor] = []

    def held(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return None, x
        flat.append(x)
        return len(flat) - 1, None

    ctx.parts = [[held(x) for x in part] for part in (tensors, weights, numbers)]
    ctx.save_for_backward(*flat)


def _gradients(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    saved = ctx.saved_tensors
    tensors, weights, numbers = (
        [x if at is None else saved[at] for at, x in part] for part in ctx.parts
    )
    of_table = bool(ctx.needs_input_grad[5])
    found = torch.ops.posenc.blocked_backward(*tensors, weights, *numbers, grad, of_table)
    rest = iter(found)
    there = [x is not None for x in tensors]
    there[5] = there[5] and of_table
    grads = [next(rest) if given else None for given in there]
    # An empty list of numbers counts as one of tensors.
    none = [[] if isinstance(x, list) and not x else None for x in numbers]
    return (*grads, list(rest), *none)


_LIBRARY.impl("blocked", _forward, "CompositeExplicitAutograd")
_LIBRARY.impl("blocked_backward", _backward, "CompositeExplicitAutograd")
torch.library.register_fake("posenc::blocked", _fake_forward, lib=_LIBRARY)
torch.library.register_fake("posenc::blocked_backward", _fake_backward, lib=_LIBRARY)
torch.library.register_autograd("posenc::blocked", _gradients, setup_context=_setup, lib=_LIBRARY)
