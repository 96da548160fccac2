"""The backward kernel that goes through queries: gradients of keys, values and offsets.

Its tiles are keys by queries, so that weights and gradients of scores come as the left operands of
the products that follow: transposed, they would pass through shared memory.
"""

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
from posenc.triton.spans import ends_of, query_tiles, steps_of, tile_at
from posenc.triton.tiles import product


@triton.jit(do_not_specialize=LENGTHS)
def key_kernel(
    q, k, v, dout, dk, dv, lse, delta, doffset,
    qb, qh, qt, qd, kb, kh, kt, kd, vb, vh, vt, vd, gb, gh, gt, gd,
    wb, wh, wt, wd, zb, zh, zt, zd,
    table, table_stride, size, zero, past, future, behind, ahead,
    q_offset, k_offset, offset_stride,
    q_at, k_at, q_order, k_order, q_document, k_document, k_valid, at_stride,
    entries, ends, scale, natural, heads, group, q_len, k_len,
    DIM: tl.constexpr, VALUE_DIM: tl.constexpr, CAUSAL: tl.constexpr, WIDTH: tl.constexpr,
    SINKS: tl.constexpr, PREFIX: tl.constexpr, PLAIN: tl.constexpr, KEY_ONLY: tl.constexpr,
    TABLE: tl.constexpr, SLOPE: tl.constexpr, OFFSETS: tl.constexpr, PRECISION: tl.constexpr,
    DIRECT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, DP: tl.constexpr, EP: tl.constexpr,
):  # fmt: skip
    """dk and dv for a tile of keys, added up over the query heads that share them.

    With OFFSETS, doffset (b, h, tk) of every query head, the sums of ds over queries.
    """
    tiles = tl.cdiv(k_len, BN)
    tile = tl.program_id(0) % tiles
    shared = heads // group
    key_head = tl.program_id(0) // tiles
    batch = (key_head // shared).to(tl.int64)
    key_head = key_head % shared
    row = batch * at_stride
    n0 = tile * BN
    j = n0 + tl.arange(0, BN)
    d = tl.arange(0, DP)
    e = tl.arange(0, EP)
    wide = j.to(tl.int64)[:, None]
    far_key = key_head.to(tl.int64)
    in_k = (j < k_len)[:, None]
    y = tl.load(
        k + batch * kb + far_key * kh + wide * kt + d[None, :] * kd,
        mask=in_k & (d < DIM)[None, :], other=0.0,
    )  # fmt: skip
    z = tl.load(
        v + batch * vb + far_key * vh + wide * vt + e[None, :] * vd,
        mask=in_k & (e < VALUE_DIM)[None, :], other=0.0,
    )  # fmt: skip
    keys = key_side(j, row, k_at, k_order, k_document, k_valid, k_len, PLAIN)
    acc_k = tl.zeros((BN, DP), lse.dtype.element_ty)
    acc_v = tl.zeros((BN, EP), lse.dtype.element_ty)
    span = n0
    if PLAIN:
        span = query_tiles(
            n0, q_len, k_len, behind, ahead, CAUSAL, WIDTH, SINKS, PREFIX,
            TABLE or (SLOPE and not KEY_ONLY), BM, BN,
        )  # fmt: skip
    at = row * tiles + tile
    entries += at * tl.cdiv(q_len, BM)
    counts = ends_of(span, ends + at * 3, PLAIN)
    for member in range(0, group):
        head = key_head * group + member
        far = head.to(tl.int64)
        of_q = q + batch * qb + far * qh
        of_dout = dout + batch * gb + far * gh
        rows = (batch * heads + far) * q_len
        of_table = table + far * table_stride
        of_q_offset = q_offset + batch * offset_stride * heads * q_len + far * q_len
        of_k_offset = k_offset + batch * offset_stride * heads * k_len + far * k_len
        bias = ends_of_table(of_table, size, TABLE)
        slopes = slopes_of(past, future, head, SLOPE)
        acc_offset = tl.zeros((BN,), lse.dtype.element_ty)
        for kind in tl.static_range(3):
            if kind != 1 or TABLE or (SLOPE and not KEY_ONLY):
                begin, stop = steps_of(counts, kind)
                for step in range(begin, stop):
                    m, is_ahead = tile_at(step, span, entries, kind == 0, kind == 2, True, PLAIN)
                    m0 = m * BM
                    i = m0 + tl.arange(0, BM)
                    wide_i = i.to(tl.int64)[:, None]
                    x_mask = (d < DIM)[None, :]
                    g_mask = (e < VALUE_DIM)[None, :]
                    if kind == 2:
                        x_mask = x_mask & (i < q_len)[:, None]
                        g_mask = g_mask & (i < q_len)[:, None]
                    x = tl.load(of_q + wide_i * qt + d[None, :] * qd, mask=x_mask, other=0.0)
                    g = tl.load(of_dout + wide_i * gt + e[None, :] * gd, mask=g_mask, other=0.0)
                    level = tl.load(lse + rows + i, mask=i < q_len, other=float("inf"))
                    mean = tl.load(delta + rows + i, mask=i < q_len, other=0.0)
                    queries = query_side(i, row, q_at, q_order, q_document, q_len, k_len, PLAIN)
                    offsets = offsets_of(of_q_offset, i, q_len, OFFSETS, lse.dtype.element_ty)
                    base = tl.max(keys[0], 0)
                    if PLAIN:
                        base = m0 // REBASE * REBASE + (k_len - q_len)
                    level -= row_shift(queries[0], base, slopes[0], KEY_ONLY, lse.dtype.element_ty)
                    s = product(y, tl.trans(x), lse.dtype.element_ty, PRECISION)
                    s = tile_scores(
                        s, scale, j, n0, queries, keys, base, of_table, size, zero, bias, slopes,
                        is_ahead, of_k_offset, offsets, k_len, CAUSAL, WIDTH, SINKS, PREFIX, PLAIN,
                        KEY_ONLY, TABLE, SLOPE, OFFSETS, DIRECT, True, kind == 0, kind == 2,
                    )  # fmt: skip
                    p = tl.exp2(s - level[None, :])
                    acc_v += product(p.to(g.dtype), g, lse.dtype.element_ty, PRECISION)
                    dp = product(z, tl.trans(g), lse.dtype.element_ty, PRECISION)
                    ds = p * (dp - mean[None, :])
                    acc_k += product(ds.to(x.dtype), x, lse.dtype.element_ty, PRECISION)
                    if OFFSETS:
                        acc_offset += tl.sum(ds, 1)
        if OFFSETS:
            tl.store(doffset + (batch * heads + far) * k_len + j, acc_offset, mask=j < k_len)
    target = dk + batch * wb + far_key * wh + wide * wt + d[None, :] * wd
    tl.store(target, (acc_k * natural).to(dk.dtype.element_ty), mask=in_k & (d < DIM)[None, :])
    target = dv + batch * zb + far_key * zh + wide * zt + e[None, :] * zd
    tl.store(target, acc_v.to(dv.dtype.element_ty), mask=in_k & (e < VALUE_DIM)[None, :])
