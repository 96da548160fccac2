"""torch's FlexAttention: biases as a score_mod, visibility as a block mask.

On a GPU it is compiled; on CPU, unless the caller compiles, it is quadratic in memory: an oracle.
It has no backward on CPU, and sums the gradients of tables by atomics, so that two runs on a GPU
may differ in their last bits.
"""

from collections.abc import Callable
from threading import RLock
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from posenc.backends.backend import Backend, Call, operands
from posenc.normal_form.features import Feature
from posenc.normal_form.form import NormalForm
from posenc.positions import Positions
from posenc.torch_modes import arithmetic, named

ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]

# Settings of torch that all threads share: two that overlap would leave them changed.
_SWITCHING = RLock()

CAN = frozenset(
    {
        Feature.ROTATION,
        Feature.POLAR,
        Feature.TABLE,
        Feature.SLOPES,
        Feature.QUERY_SCALE,
        Feature.OFFSETS,
        Feature.SINK,
        Feature.MASK,
        Feature.PLACED_DISTANCES,
        Feature.FRACTIONAL_DISTANCES,
    }
)


def limits(call: Call) -> str | None:
    on_gpu, form = call.q.is_cuda, call.form
    around = [x for x in (form.transform, form.value_rotation) if x is not None]
    tensors = [call.q, call.k, call.v, *(form.q_waves or ()), *form.tensors]
    tensors += [x for part in around for x in named(part).values()]
    learns = any(isinstance(x, Tensor) and x.requires_grad for x in tensors)
    if not on_gpu and torch.is_grad_enabled() and learns:
        return "FlexAttention has no backward on CPU: use torch.no_grad(), or another backend"
    if on_gpu and call.width < 16:
        return "FlexAttention's kernels need heads of at least 16 dimensions"
    if on_gpu and call.width != call.v.shape[-1]:
        return "FlexAttention's kernels fail where values have another head dimension than keys"
    return None


def declines(call: Call) -> str | None:
    return "each kind of bias and mask is compiled anew, so it must be asked for by name"


def attend(call: Call) -> Tensor:
    out = with_lse(call)[0] if call.form.sink is not None else _attended(call)
    return out.to(call.v.dtype)


def with_lse(call: Call) -> tuple[Tensor, Tensor]:
    from torch.nn.attention import flex_attention as module

    if not hasattr(module, "AuxRequest"):
        out, lse = _attended(call, return_lse=True)
    else:
        out, beside = _attended(call, return_aux=module.AuxRequest(lse=True))
        lse = beside.lse
    lse, sink = lse.to(arithmetic(call.q, call.k, call.v)), call.form.sink
    if sink is not None:
        # It has no place in a score_mod: what the keys leave to it is taken off afterwards.
        of_keys, lse = lse, torch.logaddexp(lse, sink.to(lse.dtype)[:, None])
        out = out * (of_keys - lse).exp()[..., None]
    return out.to(call.v.dtype), lse


def _attended(call: Call, **asked: Any) -> Any:
    """What FlexAttention returns where it is asked for this beside the output."""
    # Imported here, for it brings the compiler: importing posenc stays quick.
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    positions = call.form.positions
    q, k, v, scale = operands(call)
    sees, batched = _mask(call.form)
    block_mask = None
    if sees is not None:
        rows = q.shape[0] if batched else None
        size = positions.q_len, positions.k_len
        block_mask = create_block_mask(sees, rows, None, *size, device=q.device)
    run = flex_attention
    if not torch.compiler.is_compiling():
        run = _fused if q.is_cuda else _eager
    inputs = [x.contiguous() for x in (q, k, v)]
    if not q.is_cuda:
        # Nothing is tracked here, but FlexAttention objects to leaves under no_grad too.
        inputs = [x.detach() for x in inputs]
    return run(
        *inputs,
        score_mod=_bias(call, scale, arithmetic(call.q, call.k, call.v)),
        block_mask=block_mask,
        scale=scale,
        enable_gqa=q.shape[1] != k.shape[1],
        **asked,
    )


def _fused(q: Tensor, k: Tensor, v: Tensor, **settings: Any) -> Any:
    """On a GPU, one kernel for each kind of bias and mask.

    Past dynamo's limit of 8 kinds it would go on with the whole matrix of scores and say nothing:
    fullgraph makes that an error, and the limit is raised.
    """
    from torch.nn.attention.flex_attention import flex_attention

    limits = {"recompile_limit": 256, "accumulated_recompile_limit": 4096}
    with _SWITCHING, torch._dynamo.config.patch(**limits):
        return torch.compile(flex_attention, fullgraph=True, dynamic=False)(q, k, v, **settings)


def _eager(q: Tensor, k: Tensor, v: Tensor, **settings: Any) -> Any:
    """On CPU, where only an outer torch.compile makes a kernel.

    Called as it is, it traces itself for each kind of bias and mask and fails after 8 of them. Its
    debugging mode, of later versions of torch, does not; what that lacks is the backward.
    """
    from torch.nn.attention import flex_attention as module

    switch = "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG"
    if not hasattr(module, switch):
        return module.flex_attention(q, k, v, **settings)
    with _SWITCHING, mock.patch.object(module, switch, True):
        return module.flex_attention(q, k, v, **settings)


def _bias(call: Call, scale: float, dtype: torch.dtype) -> ScoreMod | None:
    """What is added to a score, from whole tensors that a kernel can read by index."""
    form = call.form
    distance = _difference(form.positions)
    table, slopes = form.biases(scale)
    parts: list[ScoreMod] = []
    if table is not None:
        parts.append(_table(table.values.to(dtype), table.zero, distance))
    if slopes is not None:
        # One tensor read once: FlexAttention allows one read of each that needs a gradient.
        parts.append(_slope(torch.stack((slopes.past, slopes.future)).to(dtype), distance))
    if form.offsets is not None:
        parts.append(_offset(form.offsets.q, form.offsets.k, dtype))
    if not parts:
        return None

    def score_mod(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        for part in parts:
            score = part(score, b, h, i, j)
        return score

    return score_mod


def _table(
    values: Tensor, zero: int, distance: Callable[[Tensor, Tensor, Tensor], Tensor]
) -> ScoreMod:
    last, shared = values.shape[-1] - 1, values.shape[0] == 1
    line = values[0]

    def score_mod(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        index = (distance(b, i, j) + zero).clamp(0, last)
        return score + (line[index] if shared else values[h, index])

    return score_mod


def _slope(both: Tensor, distance: Callable[[Tensor, Tensor, Tensor], Tensor]) -> ScoreMod:
    def score_mod(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        step = distance(b, i, j)
        return score - both[torch.where(step > 0, 1, 0), h] * step.abs().to(score.dtype)

    return score_mod


def _offset(of_query: Tensor, of_key: Tensor, dtype: torch.dtype) -> ScoreMod:
    """Rounded after the sum, for both may be large and close."""
    q_batched, k_batched = of_query.shape[0] > 1, of_key.shape[0] > 1
    # Of tensors alone, for torch 2.7 would ask one beside a number for its value.
    q_line, k_line = of_query[0], of_key[0]

    def score_mod(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        first = of_query[b, h, i] if q_batched else q_line[h, i]
        second = of_key[b, h, j] if k_batched else k_line[h, j]
        return score + (first + second).to(dtype)

    return score_mod


def _difference(positions: Positions) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """The distance of a pair by its batch entry and indices."""
    if positions.in_order and positions.unit_step:
        shift = positions.k_len - positions.q_len
        return lambda b, i, j: j - i - shift
    q, k = _reader(positions.queries.position), _reader(positions.keys.position)
    return lambda b, i, j: k(b, j) - q(b, i)


def _reader(x: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    return (lambda b, i: x[b, i]) if x.ndim > 1 and x.shape[0] > 1 else _first_row(x)


def _first_row(x: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    row = x.reshape(-1)
    return lambda b, i: row[i]


def _mask(
    form: NormalForm,
) -> tuple[Callable[[Tensor, Tensor, Tensor, Tensor], Tensor] | None, bool]:
    """Who sees whom by index, or None where everyone sees everyone, and whether rows differ."""
    positions, rules = form.positions, form.visibility
    width, causal, sinks, prefix = rules.window, rules.causal, rules.sinks, rules.prefix
    chunk = rules.chunk
    orders = positions.queries.order, positions.keys.order
    shift = positions.k_len - positions.q_len
    # Counted, not read: a graph cannot hand a tensor that it made itself to a block mask.
    q_order = (lambda b, i: i + shift) if orders[0] is None else _reader(orders[0])
    k_order = (lambda b, j: j) if orders[1] is None else _reader(orders[1])
    documents = positions.queries.document, positions.keys.document
    q_document, k_document = (None if x is None else _reader(x) for x in documents)
    valid = None if positions.keys.valid is None else _reader(positions.keys.valid)
    if not (causal or width is not None or chunk is not None or q_document or valid):
        return None, False

    def mask_mod(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        key = k_order(b, j)
        step = key - q_order(b, i)
        seen = step == step
        if causal:
            past = step <= 0
            seen = seen & (past | (key < prefix) if prefix else past)
        if width is not None:
            near = step.abs() < width
            seen = seen & (near | (key < sinks) if sinks else near)
        if chunk is not None:
            seen = seen & (key // chunk == q_order(b, i) // chunk)
        if q_document is not None and k_document is not None:
            seen = seen & (q_document(b, i) == k_document(b, j))
        return seen if valid is None else seen & valid(b, j)

    told_apart = (*orders, *documents, positions.keys.valid)
    return mask_mod, any(x is not None and x.ndim > 1 and x.shape[0] > 1 for x in told_apart)


BACKEND = Backend(
    attend,
    CAN,
    devices=("cpu", "cuda"),
    dropout=False,
    limits=limits,
    declines=declines,
    with_lse=with_lse,
)
