"""Chunks of heads and queries one by one, forward and, with their weights made anew, backward."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from posenc.backends.backend import Call
from posenc.backends.blocked.operands import Operands, line_hides, operands_of
from posenc.backends.blocked.weights import Chunk, output, with_lse
from posenc.errors import UnsupportedError
from posenc.normal_form.form import NormalForm
from posenc.normal_form.pairs import Span

# Scores of one chunk: 2 MiB of float32, so that its buffers stay in the cache.
SCORES = 2**19
ROWS = 64
# Where minus infinity may hide all that a query sees.
_BIASES = ("table", "dense", "q_offset", "k_offset", "network_output_bias")


def attend(call: Call) -> Tensor:
    """The output (b, h, tq, d_v), in v's dtype."""
    (out,) = _by_chunks(call, output, (call.v.shape[3],))
    return out.to(call.v.dtype)


def attend_with_lse(call: Call) -> tuple[Tensor, Tensor]:
    """The same, and the log of the sum of exp(score) of each query (b, h, tq)."""
    out, lse = _by_chunks(call, with_lse, (call.v.shape[3], None))
    return out.to(call.v.dtype), lse


Make = Callable[[Chunk, dict[str, Tensor]], tuple[Tensor, ...]]


def _by_chunks(call: Call, make: Make, widths: tuple[int | None, ...]) -> tuple[Tensor, ...]:
    """What `make` gives of each chunk, put together: numbers or vectors of a width by query."""
    operands = operands_of(call)
    chunks = list(_chunks(call, operands))
    names, tensors = zip(*operands.tensors.items(), strict=True)
    rows = call.q.shape[:3]
    shapes = [rows if width is None else (*rows, width) for width in widths]
    # Without its tensors, which autograd keeps.
    holding = partial(Operands, operands.form, operands.heads, operands.diagonal)
    return _ByChunks.apply(holding, chunks, make, shapes, names, *tensors)


def _chunks(call: Call, operands: Operands) -> Iterator[Chunk]:
    form, x = operands.form, operands.tensors
    biases = [x[name] for name in _BIASES if name in x]
    if operands.form.table is not None:
        biases.append(operands.form.table.values)
    infinite = any(bool((bias == -torch.inf).any()) for bias in biases)
    hides = not line_hides(form) or not operands.diagonal
    heads, rows = sizes_of(call)
    places = list(spans(form, rows))
    for first in range(0, call.q.shape[1], heads):
        own = slice(first, first + heads)
        for span in places:
            seed = int(torch.randint(2**62, ())) if call.dropout else 0
            empty = infinite or not form.plain
            yield Chunk(form, span, own, operands.diagonal, hides, empty, call.dropout, seed)


def sizes_of(call: Call) -> tuple[int, int]:
    """How many query heads come at a time, and how many queries.

    Those of a window come with as many keys as they are, and a window of keys before them: no more
    than it is wide, or most of what they meet is hidden.
    """
    (b, h, _, _), key_heads = call.q.shape, call.k.shape[1]
    window, k_len = _cutting_window(call.form), call.k.shape[2]
    keys = k_len if window is None else min(k_len, 2 * window)
    # Heads that go together are whole groups that share keys, or lie within one.
    share = h // max(1, key_heads)
    counts = [n for n in range(h, 0, -1) if h % n == 0 and (n % share == 0 or share % n == 0)]
    heads = next((n for n in counts if b * n * keys * ROWS <= SCORES), 1)
    rows = SCORES // max(1, b * heads * keys)
    return heads, max(ROWS, rows if window is None else min(rows, window))


def _cutting_window(form: NormalForm) -> int | None:
    """The width of a window that hides all keys before it; sinks stay visible from anywhere."""
    return None if form.visibility.sinks else form.visibility.window


def spans(form: NormalForm, rows: int) -> Iterator[Span]:
    """Each chunk of queries with the keys that hold all it may see; chunks that see none are left
    out, but beside a sink."""
    positions, seen = form.positions, form.visibility
    q_len, k_len = positions.q_len, positions.k_len
    window = _cutting_window(form)
    documents, valid = (positions.queries.document, positions.keys.document), positions.keys.valid
    unordered = positions.queries.order is None and q_len > k_len
    rules = seen.past_only or window is not None or seen.chunk is not None
    free = not rules and documents[0] is None and valid is None
    everything = torch.ones(1, k_len, dtype=torch.bool, device=positions.device)
    for start in range(0, q_len, rows):
        stop = min(start + rows, q_len)
        if free or unordered:
            yield Span(start, stop, 0, k_len)
            continue
        q_order, k_order = positions.orders()
        q_order = q_order[..., start:stop]
        candidates = everything if valid is None else valid
        if seen.past_only:
            candidates = candidates & (k_order <= q_order.amax(-1, keepdim=True))
        if window is not None:
            candidates = candidates & (k_order > q_order.amin(-1, keepdim=True) - window)
            candidates = candidates & (k_order < q_order.amax(-1, keepdim=True) + window)
        if seen.chunk is not None:
            first, last = (f(-1, keepdim=True) // seen.chunk for f in (q_order.amin, q_order.amax))
            own = k_order // seen.chunk
            candidates = candidates & (own >= first) & (own <= last)
        if documents[0] is not None and documents[1] is not None:
            own = documents[0][..., start:stop]
            candidates = candidates & (documents[1] >= own.amin(-1, keepdim=True))
            candidates = candidates & (documents[1] <= own.amax(-1, keepdim=True))
        columns = candidates.view(-1, k_len).any(0).nonzero()
        if len(columns):
            yield Span(start, stop, int(columns[0]), int(columns[-1]) + 1)
        elif form.sink is not None:
            # It is in the sum of all rows, before a key that is hidden from these.
            yield Span(start, stop, 0, min(1, k_len))


class _ByChunks(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        holding: Callable[[dict[str, Tensor]], Operands],
        chunks: list[Chunk],
        make: Make,
        shapes: list[tuple[int, ...]],
        names: tuple[str, ...],
        *tensors: Tensor,
    ) -> tuple[Tensor, ...]:
        operands = holding(dict(zip(names, tensors, strict=True)))
        ctx.save_for_backward(*tensors)
        ctx.holding, ctx.chunks, ctx.names, ctx.make = holding, chunks, names, make
        # Queries without a chunk see nothing: their output is zero, and so is the sum of exp.
        outs = tuple(
            tensors[0].new_full(shape, 0.0 if len(shape) == 4 else -torch.inf) for shape in shapes
        )
        for chunk in chunks:
            own = slice(chunk.span.start, chunk.span.stop)
            made = make(chunk, operands.cut(chunk.span, chunk.heads))
            for out, part in zip(outs, made, strict=True):
                out[:, chunk.heads, own] = part
        return outs

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise UnsupportedError(
                "attend(backend='blocked') has no gradient of its gradient: "
                "use backend='reference' where create_graph=True"
            )
        named = dict(zip(ctx.names, ctx.saved_tensors, strict=True))
        operands = ctx.holding(named)
        wanted = [
            name for name, want in zip(ctx.names, ctx.needs_input_grad[5:], strict=True) if want
        ]
        sums = {name: torch.zeros_like(named[name]) for name in wanted}
        totals = ctx.holding(sums)
        for chunk in ctx.chunks:
            parts = operands.cut(chunk.span, chunk.heads)
            leaves = {name: parts[name].detach().requires_grad_() for name in wanted}
            with torch.enable_grad():
                outs = ctx.make(chunk, parts | leaves)
            rows = slice(chunk.span.start, chunk.span.stop)
            own = [grad[:, chunk.heads, rows] for grad in grads]
            # The log of the sum is no function of values.
            of = [pair for pair in zip(outs, own, strict=True) if pair[0].requires_grad]
            outs, own = zip(*of, strict=True)
            found = torch.autograd.grad(outs, list(leaves.values()), own, allow_unused=True)
            places = totals.cut(chunk.span, chunk.heads).values()
            for total, part in zip(places, found, strict=True):
                if part is not None:
                    total.add_(part)
        return None, None, None, None, None, *(sums.get(name) for name in ctx.names)
