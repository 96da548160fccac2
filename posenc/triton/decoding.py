"""One query against a long cache: the heads that share keys are the rows of a tile.

Keys are split among programs, and the parts merged by their log-sum-exp, so that a batch of one
occupies the whole GPU and every key is read once.
"""

import math

import triton
import triton.language as tl
from torch import Tensor

from posenc.triton import on_device
from posenc.triton.kernel_args import LOG2_E, Inputs, KernelArgs
from posenc.triton.tiles import add_tile, finish, product, with_sink

# Programs that occupy a GPU of 132 cores; splits are no shorter than _SHORTEST keys.
_PROGRAMS = 528
_SHORTEST = 256


def fits(x: Inputs) -> bool:
    """Whether this is one query of plain positions without offsets, whose heads fit a tile."""
    one = x.plain and x.k_offset is None and x.q.shape[2] == 1
    return one and x.q.shape[1] // x.k.shape[1] <= 16


def decode(x: Inputs) -> Tensor:
    """out (b, h, 1, e) for q (b, h, 1, d); no gradient. The query is the last of the keys."""
    args = KernelArgs(x)
    groups = args.batch * args.heads // args.group
    # Without sinks nothing before the window is read.
    begin = max(0, args.k_len - x.width) if x.width and not x.sinks else 0
    wanted = max(1, min(_PROGRAMS // groups, (args.k_len - begin) // _SHORTEST))
    block = 64
    each = triton.cdiv(triton.cdiv(args.k_len - begin, wanted), block) * block
    splits = max(1, triton.cdiv(args.k_len - begin, each)) if args.k_len else 1
    parts = x.q.new_empty(args.batch, args.heads, splits, args.value_dim, dtype=x.exact)
    levels = x.q.new_empty(args.batch, args.heads, splits, dtype=x.exact)
    names = ("DIM", "VALUE_DIM", "DP", "EP", "WIDTH", "SINKS", "TABLE", "SLOPE", "PRECISION")
    with on_device(x.q):
        decode_kernel[splits, groups](
            x.q, x.k, x.v, parts, levels, *args.strides, *args.bias[:5], args.sink,
            x.scale * LOG2_E, args.heads, args.group, args.k_len, begin, each,
            **{name: args.constants[name] for name in names}, SINK=x.sink is not None,
            BN=block, num_warps=4, num_stages=3, enable_fp_fusion=True,
        )  # fmt: skip
    if splits == 1:
        return parts.to(x.q.dtype)
    weights = (levels * math.log(2)).softmax(-1)
    return (weights[:, :, None] @ parts).to(x.q.dtype)


@triton.jit
def decode_kernel(
    q, k, v, parts, levels, qb, qh, qt, qd, kb, kh, kt, kd, vb, vh, vt, vd,
    table, table_stride, size, zero, past, sink, scale, heads, group, k_len, begin, each,
    DIM: tl.constexpr, VALUE_DIM: tl.constexpr, DP: tl.constexpr, EP: tl.constexpr,
    WIDTH: tl.constexpr, SINKS: tl.constexpr, TABLE: tl.constexpr, SLOPE: tl.constexpr,
    PRECISION: tl.constexpr, SINK: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """One split of the keys of one key head: parts (b, h, splits, e) and levels, in log 2."""
    split = tl.program_id(0)
    batch = (tl.program_id(1) // (heads // group)).to(tl.int64)
    key_head = (tl.program_id(1) % (heads // group)).to(tl.int64)
    r = tl.arange(0, 16)
    head = key_head * group + r
    d = tl.arange(0, DP)
    e = tl.arange(0, EP)
    inside = (r < group)[:, None] & (d < DIM)[None, :]
    x = tl.load(q + batch * qb + head[:, None] * qh + d[None, :] * qd, mask=inside, other=0.0)
    k += batch * kb + key_head * kh + d[:, None] * kd
    v += batch * vb + key_head * vh + e[None, :] * vd
    top = tl.full((16,), float("-inf"), levels.dtype.element_ty)
    total = tl.zeros((16,), levels.dtype.element_ty)
    # Of all splits the first counts it.
    if SINK and split == 0:
        top, total = with_sink(tl.load(sink + head, mask=r < group, other=0.0), top, total)
    acc = tl.zeros((16, EP), levels.dtype.element_ty)
    first = begin + split * each
    for n0 in range(first, tl.minimum(first + each, k_len), BN):
        j = n0 + tl.arange(0, BN)
        far = j.to(tl.int64)
        here = j < k_len
        y = tl.load(k + far[None, :] * kt, mask=(d < DIM)[:, None] & here[None, :], other=0.0)
        s = product(x, y, levels.dtype.element_ty, PRECISION) * scale
        distance = j - (k_len - 1)
        if SLOPE:
            slope = tl.load(past + head, mask=r < group, other=0.0)
            s += slope[:, None] * distance.to(s.dtype)[None, :]
        if TABLE:
            index = tl.minimum(tl.maximum(distance + zero, 0), size - 1)
            rows = table + head[:, None] * table_stride + index[None, :]
            s += tl.load(rows, mask=(r < group)[:, None] & here[None, :], other=0.0)
        seen = here
        if WIDTH > 0:
            seen = seen & ((distance > -WIDTH) | (j < SINKS))
        s = tl.where(seen[None, :], s, float("-inf"))
        values = v + far[:, None] * vt
        shown = here[:, None] & (e < VALUE_DIM)[None, :]
        top, total, acc = add_tile(s, values, shown, top, total, acc, PRECISION)
    acc, level = finish(top, total, acc, "-inf")
    part = (batch * heads + head) * tl.num_programs(0) + split
    tl.store(levels + part, level, mask=r < group)
    target = parts + part[:, None] * VALUE_DIM + e[None, :]
    tl.store(target, acc, mask=(r < group)[:, None] & (e < VALUE_DIM)[None, :])
