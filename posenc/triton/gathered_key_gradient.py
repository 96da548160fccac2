"""The backward kernel of gathered attention that goes through queries: gradients of keys' side.

Its tiles are keys by queries, as those of `posenc.triton.key_gradient`.
"""

import triton
import triton.language as tl

from posenc.triton.gathered_forward import SIZES
from posenc.triton.gathered_scores import (
    both_ends,
    of_query_band,
    places,
    put_ends,
    put_near,
    with_bands,
)
from posenc.triton.scores import (
    REBASE,
    ends_of_table,
    key_side,
    query_side,
    row_shift,
    slopes_of,
    tile_scores,
)
from posenc.triton.spans import ends_of, query_tiles, steps_of, tile_at
from posenc.triton.tiles import product


@triton.jit(do_not_specialize=SIZES)
def gathered_key_kernel(
    q, k, v, dout, dk, dv, lse, delta, dh, dm,
    qb, qh, qt, qd, kb, kh, kt, kd, vb, vh, vt, vd, gb, gh, gt, gd,
    wb, wh, wt, wd, zb, zh, zt, zd, repeated,
    g, g_size, g_zero, h, h_size, h_zero, h_group, m_size, m_zero,
    table, table_stride, size, zero, past, future, behind, ahead,
    q_at, k_at, q_order, k_order, q_document, k_document, k_valid, at_stride,
    entries, ends, scale, natural, heads, group, q_len, k_len,
    DIM: tl.constexpr, VALUE_DIM: tl.constexpr, CAUSAL: tl.constexpr, WIDTH: tl.constexpr,
    SINKS: tl.constexpr, PREFIX: tl.constexpr, PLAIN: tl.constexpr, KEY_ONLY: tl.constexpr,
    TABLE: tl.constexpr, SLOPE: tl.constexpr, PRECISION: tl.constexpr, DIRECT: tl.constexpr,
    OF_QUERIES: tl.constexpr, OF_KEYS: tl.constexpr, OF_VALUES: tl.constexpr,
    REPEATS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, DP: tl.constexpr, EP: tl.constexpr,
):  # fmt: skip
    """dk and dv for a tile of keys, but for what comes of their band, over the heads that share.

    dh  (b, h, tk, h_size), of every query head the gradient of the band of keys, zero where no
        query is met
    repeated  (1|b): with REPEATS, a place where several queries are: they share numbers of dh
    dm  (b, h, tq, m_size), dout times the vectors of values, a band
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
    in_k = j < k_len
    y = tl.load(
        k + batch * kb + far_key * kh + wide * kt + d[None, :] * kd,
        mask=in_k[:, None] & (d < DIM)[None, :], other=0.0,
    )  # fmt: skip
    z = tl.load(
        v + batch * vb + far_key * vh + wide * vt + e[None, :] * vd,
        mask=in_k[:, None] & (e < VALUE_DIM)[None, :], other=0.0,
    )  # fmt: skip
    keys = key_side(j, row, k_at, k_order, k_document, k_valid, k_len, PLAIN)
    acc_k = tl.zeros((BN, DP), lse.dtype.element_ty)
    acc_v = tl.zeros((BN, EP), lse.dtype.element_ty)
    span = n0
    if PLAIN:
        span = query_tiles(
            n0, q_len, k_len, behind, ahead, CAUSAL, WIDTH, SINKS, PREFIX, True, BM, BN
        )
    at = row * tiles + tile
    entries += at * tl.cdiv(q_len, BM)
    counts = ends_of(span, ends + at * 3, PLAIN)
    for member in range(0, group):
        head = key_head * group + member
        far = head.to(tl.int64)
        of_q = q + batch * qb + far * qh
        of_dout = dout + batch * gb + far * gh
        rows = (batch * heads + far) * q_len
        of_h = h + ((batch * (heads // h_group) + far // h_group) * k_len + n0) * h_size
        of_dh = dh + ((batch * heads + far) * k_len + n0) * h_size
        of_table = table + far * table_stride
        bias = ends_of_table(of_table, size, TABLE)
        slopes = slopes_of(past, future, head, SLOPE)
        h_ends = both_ends(of_h, h_size, in_k, OF_KEYS, lse.dtype.element_ty)
        of_past = tl.zeros((BN,), lse.dtype.element_ty)
        of_future = tl.zeros((BN,), lse.dtype.element_ty)
        of_repeated = tl.zeros((BN,), lse.dtype.element_ty)
        for kind in tl.static_range(3):
            begin, stop = steps_of(counts, kind)
            for step in range(begin, stop):
                m, is_ahead = tile_at(step, span, entries, kind == 0, kind == 2, True, PLAIN)
                m0 = m * BM
                i = m0 + tl.arange(0, BM)
                in_q = i < q_len
                wide_i = i.to(tl.int64)[:, None]
                x_mask = (d < DIM)[None, :]
                do_mask = (e < VALUE_DIM)[None, :]
                if kind == 2:
                    x_mask = x_mask & in_q[:, None]
                    do_mask = do_mask & in_q[:, None]
                x = tl.load(of_q + wide_i * qt + d[None, :] * qd, mask=x_mask, other=0.0)
                do = tl.load(of_dout + wide_i * gt + e[None, :] * gd, mask=do_mask, other=0.0)
                level = tl.load(lse + rows + i, mask=in_q, other=float("inf"))
                mean = tl.load(delta + rows + i, mask=in_q, other=0.0)
                queries = query_side(i, row, q_at, q_order, q_document, q_len, k_len, PLAIN)
                base = tl.max(keys[0], 0)
                if PLAIN:
                    base = m0 // REBASE * REBASE + (k_len - q_len)
                level -= row_shift(queries[0], base, slopes[0], KEY_ONLY, lse.dtype.element_ty)
                s = product(y, tl.trans(x), lse.dtype.element_ty, PRECISION)
                of_tile = g + (rows + m0) * g_size
                s = with_bands(
                    s, of_tile, g_size, g_zero, of_h, h_size, h_zero, h_ends, queries, keys, in_q,
                    in_k, is_ahead, OF_QUERIES, OF_KEYS, DIRECT, True, kind == 0,
                )  # fmt: skip
                s = tile_scores(
                    s, scale, j, n0, queries, keys, base, of_table, size, zero, bias, slopes,
                    is_ahead, lse, (0.0, 0.0), k_len, CAUSAL, WIDTH, SINKS, PREFIX, PLAIN,
                    KEY_ONLY, TABLE, SLOPE, False, DIRECT, True, kind == 0, kind == 2,
                )  # fmt: skip
                p = tl.exp2(s - level[None, :])
                acc_v += product(p.to(do.dtype), do, lse.dtype.element_ty, PRECISION)
                dp = product(z, tl.trans(do), lse.dtype.element_ty, PRECISION)
                of_tile = dm + (rows + m0) * m_size
                if OF_VALUES:
                    dp += of_query_band(
                        of_tile, m_size, m_zero, (0.0, 0.0), queries, keys, in_q, is_ahead, DIRECT,
                        True, kind == 0,
                    ).to(dp.dtype)  # fmt: skip
                ds = p * (dp - mean[None, :])
                acc_k += product(ds.to(x.dtype), x, lse.dtype.element_ty, PRECISION)
                if OF_KEYS and kind == 0:
                    of_key = tl.sum(ds, 1)
                    of_past += tl.where(is_ahead, 0.0, of_key)
                    of_future += tl.where(is_ahead, of_key, 0.0)
                elif OF_KEYS:
                    seen = in_k[:, None] & in_q[None, :] & (s != float("-inf"))
                    if REPEATS:
                        again = seen & (queries[0] == tl.load(repeated + row))[None, :]
                        of_repeated += tl.sum(tl.where(again, ds, 0.0), 1)
                        seen = seen & (queries[0] != tl.load(repeated + row))[None, :]
                    place = places(queries[0], keys[0], h_zero, True)
                    first, last = put_near(of_dh, h_size, place, ds, seen, natural)
                    of_past += first
                    of_future += last
        if REPEATS:
            again_at = tl.full((1,), 0, tl.int64) + tl.load(repeated + row)
            first, last = put_near(
                of_dh, h_size, places(again_at, keys[0], h_zero, True), of_repeated[:, None],
                in_k[:, None], natural,
            )  # fmt: skip
            of_past += first
            of_future += last
        if OF_KEYS:
            put_ends(of_dh, h_size, of_past, of_future, in_k, natural)
    target = dk + batch * wb + far_key * wh + wide * wt + d[None, :] * wd
    inside = in_k[:, None] & (d < DIM)[None, :]
    tl.store(target, (acc_k * natural).to(dk.dtype.element_ty), mask=inside)
    target = dv + batch * zb + far_key * zh + wide * zt + e[None, :] * zd
    inside = in_k[:, None] & (e < VALUE_DIM)[None, :]
    tl.store(target, acc_v.to(dv.dtype.element_ty), mask=inside)
