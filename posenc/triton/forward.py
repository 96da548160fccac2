"""The forward kernel: softmax over key tiles as they come (FlashAttention), bias included."""

import triton
import triton.language as tl

from posenc.triton.kernel_args import LENGTHS
from posenc.triton.scores import (
    REBASE,
    ends_of_table,
    key_side,
    offsets_of,
    query_side,
    row_shift,
    slopes_of,
    tile_scores,
)
from posenc.triton.spans import ends_of, key_tiles, steps_of, tile_at
from posenc.triton.tiles import add_tile, finish, product, with_sink


@triton.jit(do_not_specialize=LENGTHS)
def forward_kernel(
    q, k, v, out, lse, qb, qh, qt, qd, kb, kh, kt, kd, vb, vh, vt, vd, ob, oh, ot, od,
    table, table_stride, size, zero, past, future, behind, ahead, sink,
    q_offset, k_offset, offset_stride,
    q_at, k_at, q_order, k_order, q_document, k_document, k_valid, at_stride,
    entries, ends, scale, heads, group, q_len, k_len,
    DIM: tl.constexpr, VALUE_DIM: tl.constexpr, CAUSAL: tl.constexpr, WIDTH: tl.constexpr,
    SINKS: tl.constexpr, PREFIX: tl.constexpr, PLAIN: tl.constexpr, KEY_ONLY: tl.constexpr,
    TABLE: tl.constexpr, SLOPE: tl.constexpr, OFFSETS: tl.constexpr, PRECISION: tl.constexpr,
    DIRECT: tl.constexpr, SINK: tl.constexpr, RISING: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, DP: tl.constexpr, EP: tl.constexpr,
):  # fmt: skip
    """out (b, h, tq, e) and lse (b, h, tq) in units of log 2, +inf for a row that sees nothing.

    RISING says that the scale is not negative.
    """
    tiles = tl.cdiv(q_len, BM)
    # Long rows first: under causality the last tiles have most to do.
    tile = tiles - 1 - tl.program_id(0) % tiles
    head = tl.program_id(0) // tiles
    batch = (head // heads).to(tl.int64)
    head = head % heads
    far = head.to(tl.int64)
    row = batch * at_stride
    m0 = tile * BM
    i = m0 + tl.arange(0, BM)
    d = tl.arange(0, DP)
    e = tl.arange(0, EP)
    wide = i.to(tl.int64)[:, None]
    inside = (i < q_len)[:, None] & (d < DIM)[None, :]
    x = tl.load(q + batch * qb + far * qh + wide * qt + d[None, :] * qd, mask=inside, other=0.0)
    k += batch * kb + (far // group) * kh
    v += batch * vb + (far // group) * vh
    table += far * table_stride
    q_offset += batch * offset_stride * heads * q_len + far * q_len
    k_offset += batch * offset_stride * heads * k_len + far * k_len
    bias = ends_of_table(table, size, TABLE)
    slopes = slopes_of(past, future, head, SLOPE)
    offsets = offsets_of(q_offset, i, q_len, OFFSETS, lse.dtype.element_ty)
    queries = query_side(i, row, q_at, q_order, q_document, q_len, k_len, PLAIN)
    base = m0 // REBASE * REBASE + (k_len - q_len) if PLAIN else tl.max(queries[0], 0)
    shift = row_shift(queries[0], base, slopes[0], KEY_ONLY, lse.dtype.element_ty)
    top = tl.full((BM,), float("-inf"), lse.dtype.element_ty)
    total = tl.zeros((BM,), lse.dtype.element_ty)
    if SINK:
        top, total = with_sink(tl.load(sink + head) - shift, top, total)
    acc = tl.zeros((BM, EP), lse.dtype.element_ty)
    span = m0
    if PLAIN:
        span = key_tiles(
            m0, q_len, k_len, behind, ahead, CAUSAL, WIDTH, SINKS, PREFIX,
            TABLE or (SLOPE and not KEY_ONLY), BM, BN,
        )  # fmt: skip
    entries += (row * tiles + tile) * tl.cdiv(k_len, BN)
    counts = ends_of(span, ends + (row * tiles + tile) * 3, PLAIN)
    # Three loops, each without a branch, of tiles that are far, near and masked.
    for kind in tl.static_range(3):
        # Without a bias by distance all tiles are far that are not masked.
        if kind != 1 or TABLE or (SLOPE and not KEY_ONLY):
            begin, stop = steps_of(counts, kind)
            for step in range(begin, stop):
                n, is_ahead = tile_at(step, span, entries, kind == 0, kind == 2, False, PLAIN)
                j = n * BN + tl.arange(0, BN)
                far_j = j.to(tl.int64)
                y_mask = (d < DIM)[:, None]
                z_mask = (e < VALUE_DIM)[None, :]
                if kind == 2:
                    y_mask = y_mask & (j < k_len)[None, :]
                    z_mask = z_mask & (j < k_len)[:, None]
                y = tl.load(k + far_j[None, :] * kt + d[:, None] * kd, mask=y_mask, other=0.0)
                s = product(x, y, lse.dtype.element_ty, PRECISION)
                # What a far tile adds to all of its scores.
                added = 0.0
                raw: tl.constexpr = kind == 0 and RISING and not SLOPE and not OFFSETS
                if raw:
                    if TABLE:
                        added = tl.where(is_ahead, bias[1], bias[0])
                else:
                    keys = key_side(j, row, k_at, k_order, k_document, k_valid, k_len, PLAIN)
                    s = tile_scores(
                        s, scale, j, n * BN, queries, keys, base, table, size, zero, bias, slopes,
                        is_ahead, k_offset, offsets, k_len, CAUSAL, WIDTH, SINKS, PREFIX, PLAIN,
                        KEY_ONLY, TABLE, SLOPE, OFFSETS, DIRECT, False, kind == 0, kind == 2,
                    )  # fmt: skip
                values = v + far_j[:, None] * vt + e[None, :] * vd
                top, total, acc = add_tile(
                    s, scale, added, values, z_mask, top, total, acc, raw, PRECISION
                )  # fmt: skip
    acc, level = finish(top, total, acc, "inf")
    tl.store(lse + (batch * heads + far) * q_len + i, level + shift, mask=i < q_len)
    target = out + batch * ob + far * oh + wide * ot + e[None, :] * od
    inside = (i < q_len)[:, None] & (e < VALUE_DIM)[None, :]
    tl.store(target, acc.to(out.dtype.element_ty), mask=inside)
