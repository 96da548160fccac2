"""How the backward pass of attention is shared among threads, and what the gradients of terms are
summed in.
"""

import torch
from torch import Tensor

from posenc.native.aliasing import like_rows
from posenc.native.attention_struct import BY_ROWS, LEARNED, NETWORK, CallStruct, Inputs, Steps

# Whose gradients are of their own shape, each row written by one worker.
OF_ROWS = (*BY_ROWS, "by_count")


def by_rows(x: Inputs, call: CallStruct, want: set[str]) -> dict[str, Tensor]:
    """Room for the gradients of `OF_ROWS`, laid out as their tensors are."""
    grads = {}
    for name in BY_ROWS:
        # Made in any case.
        if (rows := getattr(x, name)) is not None:
            grads[name] = like_rows(rows)
            setattr(call, f"{name}_grad_stride", Steps(*grads[name].stride()[:3]))
    if x.by_count is not None and "by_count" in want:
        grads["by_count"] = torch.empty_like(x.by_count)
    return grads


def sums_of(
    x: Inputs, call: CallStruct, want: set[str], arithmetic: torch.dtype
) -> dict[str, Tensor]:
    """Zeros that the gradients of terms are added to, for each slot or each chunk of keys."""
    sums = {}
    # The kernel sums for both slopes or for none, and for all of a network.
    together = [group for group in ({"past", "future"}, {*NETWORK}) if want & group]
    want = want.union(*together)
    for name in LEARNED:
        term = getattr(x, name)
        if name in OF_ROWS or name not in want or term is None:
            continue
        # Numbers are summed in float64: the gradient of what queries add is zero but for rounding,
        # and a sum of offsets over all tokens must see it cancel.
        dtype = arithmetic if name.startswith("on_") else torch.float64
        count, shape = call.slots, term.shape
        if name.endswith("offset"):
            count, shape = call.chunks, (call.batch, *shape[1:])
        if name == "network_by_query":
            shape = (call.batch, *shape[1:])
        sums[name] = term.new_zeros(count, *shape, dtype=dtype)
    return sums


def added_up(slots: Tensor, term: Tensor) -> Tensor:
    """The gradient of a term, from what each slot has of it."""
    # Along the first dimension, so in one order; the sum of one slot would be a copy.
    total = slots[0] if slots.shape[0] == 1 else slots.sum(0)
    alike = term.shape[0] == 1 and total.shape[0] > 1
    return (total.sum(0, keepdim=True) if alike else total).to(term.dtype)


def share(call: CallStruct, x: Inputs, threads: int) -> None:
    """How the backward pass goes to the threads, and how many sums of a table it needs."""
    tasks = call.batch * call.key_heads
    call.chunks = _chunks(tasks, threads)
    call.workers = max(1, min(threads, tasks * call.chunks))
    tables = (x.table, x.past, x.future, x.on_query, x.on_key, x.on_value, x.network_by_distance)
    tables += (x.grid_table,)
    shared = any(t is not None and t.shape[0] < call.heads for t in tables)
    alone = call.workers == 1 or (call.batch * call.chunks == 1 and not shared)
    call.slots = 1 if alone else call.workers


def _chunks(tasks: int, threads: int) -> int:
    """Into how many parts the keys of a head go, so that few heads keep every thread at work."""
    if tasks == 0 or tasks >= 4 * threads:
        return 1
    return next(n for n in range(1, threads + 1) if tasks * n % threads == 0)
