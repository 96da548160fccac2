"""One query against a long cache: the heads that share keys are the rows of a tile.

Keys are split among programs, and the parts merged by their log-sum-exp, so that a batch of one
occupies the whole GPU and every key is read once: two launches, or one where nothing is split.
Biases are read as they are, for each step of eager code before a launch takes longer than it.
"""

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from posenc.triton import power_of_two
from posenc.triton.kernel_args import LOG2_E, Inputs, exact_scale, precision_of
from posenc.triton.launch import Launch
from posenc.triton.tiles import add_tile, finish, product, with_sink

# Splits are no shorter than so many keys.
_SHORTEST = 256
# Of an H100, for tensors on no GPU.
_MULTIPROCESSORS = 132
# What is read ahead of a program's keys and values: two programs fit a multiprocessor.
_AHEAD, _BESIDE = 1 << 15, 2
_UNIT = tl.constexpr(LOG2_E)


def fits(x: Inputs) -> bool:
    """Whether this is one query of plain positions, whose heads fit a tile."""
    return x.plain and x.q.shape[2] == 1 and x.q.shape[1] // x.k.shape[1] <= 16


def decode(x: Inputs) -> tuple[Tensor, Tensor]:
    """out (b, h, 1, e) for q (b, h, 1, d), and lse (b, h, 1) in units of log 2, +inf of a query
    without keys. The query is the last of the keys.
    """
    x = exact_scale(x)
    return OneQuery(x)(x.q, x.k, x.v)


class OneQuery:
    """The launches for x, which other q, k and v with the same facts share."""

    def __init__(self, x: Inputs) -> None:
        self.exact = x.exact
        q = x.q
        batch, heads, _, dim = q.shape
        key_heads, k_len, value_dim = x.k.shape[1], x.k.shape[2], x.v.shape[3]
        wide, wide_value = max(16, power_of_two(dim)), max(16, power_of_two(value_dim))
        block, warps, stages = _block((wide + wide_value) * q.element_size())
        # Nothing between the sinks and the window is read.
        begin = max(0, k_len - x.width) if x.width else 0
        groups = max(1, batch * key_heads)
        splits, each = _splits(groups, k_len - begin, _BESIDE * _multiprocessors(q), block)
        table, past, sink = (
            q if bias is None else bias.contiguous() if bias is not x.sink else bias
            for bias in (x.table, x.past, x.sink)
        )
        size = 0 if x.table is None else table.shape[1]
        qb, qh, _, qd = q.stride()
        rest = (
            qb, qh, qd, *x.k.stride(), *x.v.stride(),
            table, size if x.table is not None and table.shape[0] > 1 else 0, size, x.zero,
            past, sink, 0 if x.sink is None else sink.stride(0), *_offsets(x), x.scale * LOG2_E,
            heads, heads // key_heads, k_len, begin, each, splits, x.width, x.sinks,
        )  # fmt: skip
        settings = {
            "DIM": dim, "VALUE_DIM": value_dim, "DP": wide, "EP": wide_value,
            "WINDOW": x.width > 0, "TABLE": x.table is not None, "SLOPE": x.past is not None,
            "SINK": x.sink is not None, "OFFSETS": x.k_offset is not None, "PARTS": splits > 1,
            "PRECISION": precision_of(q), "BN": block, "num_warps": warps, "num_stages": stages,
            "enable_fp_fusion": True,
        }  # fmt: skip
        self.splits = splits
        self.each = Launch(decode_kernel, splits * groups, q, rest, settings)
        settings = {
            "VALUE_DIM": value_dim, "EP": wide_value, "num_warps": 4, "enable_fp_fusion": True
        }  # fmt: skip
        self.merged = Launch(combine_kernel, batch * heads, q, (splits,), settings)

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        rows, value_dim = q.shape[:3], v.shape[3]
        out, lse = q.new_empty((*rows, value_dim)), q.new_empty(rows, dtype=self.exact)
        if out.numel() == 0:
            return out, lse
        if self.splits == 1:
            self.each(q, k, v, out, lse)
            return out, lse
        rows = *rows[:2], self.splits
        parts = q.new_empty((*rows, value_dim), dtype=self.exact)
        levels = q.new_empty(rows, dtype=self.exact)
        self.each(q, k, v, parts, levels)
        self.merged(parts, levels, out, lse)
        return out, lse


def _offsets(x: Inputs) -> tuple[Any, ...]:
    """Of the query and of the keys, with the strides of their rows, heads and tokens."""
    if x.q_offset is None or x.k_offset is None:
        return x.q, 0, 0, x.q, 0, 0, 0
    q, k = x.q_offset.detach(), x.k_offset.detach()
    (qb, qh, _), (kb, kh, kt) = q.stride(), k.stride()
    # One row serves every batch entry.
    return q, qb if q.shape[0] > 1 else 0, qh, k, kb if k.shape[0] > 1 else 0, kh, kt


def _block(width: int) -> tuple[int, int, int]:
    """Keys that are read at once, of so many bytes with their values, warps, pipeline stages."""
    wide = width >= _AHEAD // 16
    return max(16, min(64, _AHEAD // width)), 8 if wide else 4, 2 if width > _AHEAD // 16 else 3


def _multiprocessors(q: Tensor) -> int:
    if not q.is_cuda:
        return _MULTIPROCESSORS
    return torch.cuda.get_device_properties(q.device).multi_processor_count


def _splits(groups: int, keys: int, places: int, block: int) -> tuple[int, int]:
    """How many parts the keys are split in, and how many keys each has.

    The fewest for which the programs fill the places of a GPU as well, but for 15 in 100, as any
    number does that takes four waves or less (FlashAttention-3, heuristics.h, which tries all).
    """
    most, wanted = max(1, min(keys // _SHORTEST, places)), 1
    if groups < 0.8 * places and most > 1:
        # Of programs in so many waves, which as many splits as fit them fill best.
        filled = [(waves, min(most, waves * places // groups)) for waves in range(1, 5)]
        best = max(n * groups / (waves * places) for waves, n in filled)
        for waves, n in filled:
            wanted = max(1, math.ceil(0.85 * best * waves * places / groups))
            if wanted <= n:
                break
    each = -(-max(keys, 1) // wanted)
    each = -(-each // block) * block
    return -(-max(keys, 1) // each), each


_LENGTHS = ("table_stride", "size", "zero", "sink_stride", "heads", "group", "k_len", "begin")
_LENGTHS += ("each", "splits", "width", "sinks", "oqb", "oqh", "okb", "okh")


@triton.jit(do_not_specialize=_LENGTHS)
def decode_kernel(
    q, k, v, parts, levels, qb, qh, qd, kb, kh, kt, kd, vb, vh, vt, vd,
    table, table_stride, size, zero, past, sink, sink_stride,
    q_offset, oqb, oqh, k_offset, okb, okh, okt, scale,
    heads, group, k_len, begin, each, splits, width, sinks,
    DIM: tl.constexpr, VALUE_DIM: tl.constexpr, DP: tl.constexpr, EP: tl.constexpr,
    WINDOW: tl.constexpr, TABLE: tl.constexpr, SLOPE: tl.constexpr, SINK: tl.constexpr,
    OFFSETS: tl.constexpr, PARTS: tl.constexpr, PRECISION: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """One split of the keys of one key head: parts (b, h, splits, e) and levels, in log 2."""
    split = tl.program_id(0) % splits
    key_heads = heads // group
    batch = (tl.program_id(0) // splits // key_heads).to(tl.int64)
    key_head = (tl.program_id(0) // splits % key_heads).to(tl.int64)
    r = tl.arange(0, 16)
    head = key_head * group + r
    here = r < group
    d = tl.arange(0, DP)
    e = tl.arange(0, EP)
    inside = here[:, None] & (d < DIM)[None, :]
    x = tl.load(q + batch * qb + head[:, None] * qh + d[None, :] * qd, mask=inside, other=0.0)
    k += batch * kb + key_head * kh + d[:, None] * kd
    v += batch * vb + key_head * vh + e[None, :] * vd
    # Exact in float64 too, where a number in the code would be one of float32.
    unit = tl.full((), _UNIT, levels.dtype.element_ty)
    top = tl.full((16,), float("-inf"), levels.dtype.element_ty)
    total = tl.zeros((16,), levels.dtype.element_ty)
    # Of all splits the first counts it.
    if SINK and split == 0:
        own = tl.load(sink + head * sink_stride, mask=here, other=0.0).to(top.dtype)
        top, total = with_sink(own * unit, top, total)
    acc = tl.zeros((16, EP), levels.dtype.element_ty)
    slope = total
    if SLOPE:
        slope = tl.load(past + head, mask=here, other=0.0).to(top.dtype) * unit
    own = total
    k_offset += batch * okb + head[:, None] * okh
    if OFFSETS:
        own = tl.load(q_offset + batch * oqb + head * oqh, mask=here, other=0.0)
    first = begin + split * each
    stop = tl.minimum(first + each, k_len)
    steps = tl.cdiv(tl.maximum(stop - first, 0), BN)
    ahead = 0
    if WINDOW:
        # Before the window, which the splits share, the first meets the sinks.
        ahead = tl.where(split == 0, tl.cdiv(tl.minimum(sinks, begin), BN), 0)
    for step in range(0, ahead + steps):
        n0 = first + (step - ahead) * BN
        end = stop
        if WINDOW:
            n0 = tl.where(step < ahead, step * BN, n0)
            end = tl.where(step < ahead, tl.minimum(sinks, begin), stop)
        j = n0 + tl.arange(0, BN)
        far = j.to(tl.int64)
        seen = j < end
        y = tl.load(k + far[None, :] * kt, mask=(d < DIM)[:, None] & seen[None, :], other=0.0)
        s = product(x, y, levels.dtype.element_ty, PRECISION) * scale
        distance = j - (k_len - 1)
        if SLOPE:
            s += slope[:, None] * distance.to(s.dtype)[None, :]
        if TABLE:
            index = tl.minimum(tl.maximum(distance + zero, 0), size - 1)
            rows = table + head[:, None] * table_stride + index[None, :]
            bias = tl.load(rows, mask=here[:, None] & seen[None, :], other=0.0)
            s += bias.to(s.dtype) * unit
        if OFFSETS:
            # They may be float64 and large: their differences matter.
            shown = here[:, None] & seen[None, :]
            offset = tl.load(k_offset + far[None, :] * okt, mask=shown, other=0.0) + own[:, None]
            s += (offset * tl.full((), _UNIT, offset.dtype)).to(s.dtype)
        s = tl.where(seen[None, :], s, float("-inf"))
        values = v + far[:, None] * vt
        shown = seen[:, None] & (e < VALUE_DIM)[None, :]
        top, total, acc = add_tile(
            s, 1.0, 0.0, values, shown, top, total, acc, False, PRECISION
        )  # fmt: skip
    if PARTS:
        acc, level = finish(top, total, acc, "-inf")
    else:
        acc, level = finish(top, total, acc, "inf")
    part = (batch * heads + head) * splits + split
    tl.store(levels + part, level, mask=here)
    target = parts + part[:, None] * VALUE_DIM + e[None, :]
    shown = here[:, None] & (e < VALUE_DIM)[None, :]
    tl.store(target, acc.to(parts.dtype.element_ty), mask=shown)


@triton.jit(do_not_specialize=("splits",))
def combine_kernel(
    parts, levels, out, lse, splits, VALUE_DIM: tl.constexpr, EP: tl.constexpr
):  # fmt: skip
    """The parts (b, h, splits, e) of one query head, each by the share of its keys."""
    row = tl.program_id(0).to(tl.int64)
    e = tl.arange(0, EP)
    levels += row * splits
    parts += row * splits * VALUE_DIM + e[None, :]
    top = tl.full((), float("-inf"), lse.dtype.element_ty)
    total = tl.zeros((), lse.dtype.element_ty)
    acc = tl.zeros((EP,), lse.dtype.element_ty)
    for first in range(0, splits, 16):
        n = first + tl.arange(0, 16)
        level = tl.load(levels + n, mask=n < splits, other=float("-inf"))
        higher = tl.maximum(top, tl.max(level, 0))
        shift = tl.where(higher == float("-inf"), 0.0, higher)
        share = tl.exp2(level - shift)
        keep = tl.exp2(top - shift)
        shown = (n < splits)[:, None] & (e < VALUE_DIM)[None, :]
        one = tl.load(parts + n[:, None] * VALUE_DIM, mask=shown, other=0.0)
        acc = acc * keep + tl.sum(one * share[:, None], 0)
        total = total * keep + tl.sum(share, 0)
        top = higher
    empty = total == 0.0
    some = tl.where(empty, 1.0, total)
    tl.store(lse + row, tl.where(empty, float("inf"), top + tl.log2(some)))
    target = out + row * VALUE_DIM + e
    tl.store(target, (acc / some).to(out.dtype.element_ty), mask=e < VALUE_DIM)
