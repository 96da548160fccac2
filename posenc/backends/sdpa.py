"""torch's scaled_dot_product_attention: q and k rotated first, all else one additive mask.

The mask is (1|b, h, tq, tk), so memory is quadratic as soon as a term adds to the scores.
"""

from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from posenc.backends.backend import Backend, Call, NextLayer, operands, scale_of
from posenc.backends.next_layer import turned_alike, unchanged
from posenc.equation import group
from posenc.normal_form.features import Feature
from posenc.normal_form.form import Slopes, Table
from posenc.normal_form.pairs import (
    along_diagonals,
    by_distance,
    by_grid,
    line,
    through_network,
    vectors_by_distance,
    visible,
)
from posenc.torch_modes import (
    arithmetic,
    cast_to,
    device_type,
    forward_mode,
    kept_for,
    transformed,
)

CAN = frozenset(Feature) - {
    Feature.GROWING_ROTATION,
    Feature.ZONES,
    Feature.CHUNK_ZONES,
    Feature.REFLECTIONS,
    Feature.VALUE_VECTORS,
    Feature.COUNTS,
    Feature.SINK,
}
# What is added to scores, so that the mask holds numbers.
_ADDED = frozenset(
    {
        Feature.TABLE,
        Feature.SLOPES,
        Feature.VECTORS,
        Feature.OWN_VECTORS,
        Feature.OFFSETS,
        Feature.NETWORK,
        Feature.GRID,
        Feature.DENSE,
    }
)
# Queries of a step of decoding, and numbers in a mask that costs less than tiles do, measured on
# CPUs; on a GPU an estimate. A mask that is kept has no more than on a CPU.
_FEW = 16
_LARGE = {"cpu": 2**20, "cuda": 2**27}
_KEPT = 2**20


def limits(call: Call) -> str | None:
    if torch.compiler.is_compiling():
        return None
    if forward_mode():
        return "SDPA has no forward-mode gradient"
    if transformed() and call.form.features & _ADDED:
        return "SDPA under torch.func has no gradient of its mask"
    return None


def declines(call: Call) -> str | None:
    """Why `auto` leaves a call to others: its mask would cost more than tiles of the scores."""
    # A graph leaves lengths open, and its compiler fuses what makes the mask.
    if torch.compiler.is_compiling() or call.q.shape[2] <= _FEW:
        return None
    size = _mask_size(call)
    large = _LARGE.get(device_type(call.q), _LARGE["cpu"])
    return f"its mask would hold {size} numbers" if size > large else None


def attend(call: Call) -> Tensor:
    q, k, v, scale = operands(call)
    mask, is_causal = mask_of(call, scale)
    shape = q.shape
    q, k, v, mask = _folded(q, k, v, mask, is_causal)
    if mask is not None and mask.is_floating_point() and device_type(q) == "cuda":
        # Kernels for GPUs need a mask in the dtype of q (pytorch #191612: cuDNN takes another for
        # it), and 16 bits would round a bias of 8 by up to 0.03.
        dtype = torch.promote_types(q.dtype, mask.dtype)
        q, k, v, mask = (cast_to(dtype, x) for x in (q, k, v, mask))
    with _without_cudnn(q, k, v, mask):
        out = F.scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=mask,
            dropout_p=call.dropout,
            is_causal=is_causal,
            scale=scale,
        )
    out = out.reshape(*shape[:3], -1) if out.shape[1] < shape[1] else out
    if torch.compiler.is_exporting():
        # SDPA's strides differ from one tracing pass to the next; a copy keeps later views legal.
        out = out.clone(memory_format=torch.contiguous_format)
    return cast_to(call.v.dtype, out)


def next_layer(call: Call) -> NextLayer | None:
    """What computes this call for the tensors of the next layer: see `Backend`."""
    turn = turned_alike(call) if keeps_mask(call) else None
    if turn is None:
        return None
    scale, as_now = call.scale * call.form.scale, unchanged(call.form)
    mask, is_causal = mask_of(call, scale)

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor | None:
        if not as_now():
            return None
        (q, k), shape = turn(q, k), q.shape
        q, k, v, folded = _folded(q, k, v, mask, is_causal)
        out = F.scaled_dot_product_attention(q, k, v, folded, is_causal=is_causal, scale=scale)
        return out.reshape(*shape[:3], -1) if out.shape[1] < shape[1] else out

    return run


def _folded(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, is_causal: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Queries and keys of as many heads."""
    shape, shared = q.shape, q.shape[1] // k.shape[1]
    # The query heads of a key head become more queries of that head, so that no key is repeated. A
    # mask that is shared by all heads is repeated instead, where it holds fewer numbers. While
    # compiling, only a single query is folded, because folding more would bind the graph to one
    # length.
    folds = shape[2] == 1
    if not torch.compiler.is_compiling():
        folds = mask is None or mask.shape[1] > 1 or shape[2] <= k.shape[1] * shape[3]
    if folds and shared > 1 and not is_causal:
        rows = shared * shape[2]
        q = q.reshape(shape[0], k.shape[1], rows, shape[3])
        if mask is not None:
            # Of one head where it is shared by all: shared by the key heads again.
            heads = shape[1] if mask.shape[1] > 1 else shared
            mask = mask.expand(-1, heads, shape[2], -1)
            mask = mask.reshape(mask.shape[0], heads // shared, rows, mask.shape[-1])
    elif shared > 1:
        k, v = group(k, shape[1]), group(v, shape[1])
    return q, k, v, mask


def mask_of(call: Call, scale: float) -> tuple[Tensor | None, bool]:
    """The mask, with all that is added to scores, or that causality is all of it."""
    form, positions = call.form, call.form.positions
    if not form.adds and positions.in_order and Feature.MASK not in form.features:
        causal = form.visibility.causal
        # SDPA's own causal mask is no tensor, but aligns the first query with the first key, and
        # its kernel for CPUs multiplies it by the scale.
        if causal and positions.q_len == positions.k_len and scale > 0:
            return None, True
        # A branch, for SDPA takes no symbol of a graph.
        if not causal:
            return None, False
    if torch.compiler.is_compiling() or not keeps_mask(call):
        return _mask_tensor(call), False
    # Every layer of one forward asks for the same.
    dtype = arithmetic(call.q, call.k, call.v)
    settings = call.scale, dtype
    return kept_for(form, "_mask", settings, lambda: _mask_of_numbers(call, dtype)), False


def keeps_mask(call: Call) -> bool:
    """Whether a mask of this call is made once for all layers: it is small, and reads no q or k."""
    return call.form.on_query is None and call.form.on_key is None and _is_small(call)


def _is_small(call: Call) -> bool:
    """Whether a mask may outlive the call: it has at most as many numbers as are cheap to make."""
    batch, heads, queries, _ = call.q.shape
    return batch * heads * queries * call.k.shape[2] <= _KEPT


def _mask_of_numbers(call: Call, dtype: torch.dtype) -> Tensor | None:
    """The same, on a CPU without booleans, of which each layer would make numbers first."""
    mask = _mask_tensor(call)
    if mask is None or mask.dtype != torch.bool or device_type(mask) != "cpu":
        return mask
    return mask.new_zeros(mask.shape, dtype=dtype).masked_fill_(~mask, -torch.inf)


def _mask_tensor(call: Call) -> Tensor | None:
    bias, seen = _bias(call), visible(call.form)
    if bias is None:
        return seen
    return bias if seen is None else bias.masked_fill(~seen, -torch.inf)


def _without_cudnn(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None
) -> AbstractContextManager[object]:
    """Keeps cuDNN from training with a mask at lengths that give NaN (pytorch #196678)."""
    if not q.is_cuda or mask is None or torch.compiler.is_compiling():
        return nullcontext()
    if not (torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v))):
        return nullcontext()
    if q.shape[2] % 128 != 64 and k.shape[2] % 128 != 64:
        return nullcontext()
    return sdpa_kernel(
        [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    )


def _mask_size(call: Call) -> int:
    """Numbers in the mask or, for dropout on a CPU, which keeps them all, in the weights."""
    features, positions = call.form.features, call.form.positions
    b, h, q_len = call.q.shape[:3]
    every = b * h * q_len * call.k.shape[2]
    # A bias for all pairs is there already.
    if features & (_ADDED - {Feature.DENSE}) or (call.dropout and call.q.device.type == "cpu"):
        return every
    square = positions.in_order and q_len == call.k.shape[2]
    hides = Feature.MASK in features or positions.keys.document is not None
    if hides or (positions.causal and not square):
        return every // h
    return 0


def _bias(call: Call) -> Tensor | None:
    """All that is added to scaled content, (1|b, 1|h, tq, tk)."""
    form = call.form
    dtype, scale = arithmetic(call.q, call.k, call.v), scale_of(call)
    parts = []
    if not form.by_distance:
        parts.append(None)
    elif isinstance(scale, Tensor):
        inside = _by_distance(call, form.inside_table, form.inside_slopes, dtype)
        parts.append(None if inside is None else inside * scale)
        parts.append(_by_distance(call, form.table, form.slopes, dtype))
    else:
        parts.append(_by_distance(call, *form.biases(scale), dtype))
    if form.on_query is not None:
        parts.append(_by_vectors(call, call.q.to(dtype), form.on_query) * scale)
    if form.own is not None:
        told = _by_vectors(call, form.own.x.to(dtype), form.own.table) * form.scale
        factor = form.query_scale
        parts.append(told if factor is None else told * factor.to(dtype)[..., None])
    if form.on_key is not None:
        k = group(call.k.to(dtype), call.q.shape[1])
        parts.append(_by_vectors(call, k, form.on_key, of_keys=True) * scale)
    if form.offsets is not None:
        offsets = form.offsets.q[..., :, None] + form.offsets.k[..., None, :]
        parts.append(offsets.to(dtype))
    if form.network is not None:
        distance = form.positions.distance()[:, 0]
        parts.append(through_network(form.network, distance, form.network.by_query, dtype))
    if form.grid is not None:
        grid = form.grid
        parts.append(by_grid(grid.values.to(dtype), grid.q_index, grid.k_index, grid.zero))
    parts.append(None if form.dense is None else form.dense.to(dtype))
    bias = None
    for part in parts:
        if part is not None:
            bias = part if bias is None else bias + part
    return bias


def _by_distance(
    call: Call, table: Table | None, slopes: Slopes | None, dtype: torch.dtype
) -> Tensor | None:
    """What a table and slopes add: with four dimensions, or SDPA is not fused.

    A compiled graph fuses the gather, and a view of dynamic size would fix its length.
    """
    positions = call.form.positions
    if table is None and slopes is None:
        return None
    if not call.form.plain or torch.compiler.is_compiling():
        return by_distance(table, slopes, positions.distance(), dtype)
    values = line(table, slopes, 1 - positions.k_len, positions.q_len, dtype)
    return None if values is None else along_diagonals(values, positions.k_len)[None]


def _by_vectors(call: Call, x: Tensor, vectors: Table, of_keys: bool = False) -> Tensor:
    distance = call.form.positions.distance()
    if of_keys:
        return vectors_by_distance(x, vectors, distance.mT).mT
    return vectors_by_distance(x, vectors, distance)


BACKEND = Backend(attend, CAN, limits=limits, declines=declines, next_layer=next_layer)
