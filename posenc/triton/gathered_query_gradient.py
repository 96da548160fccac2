"""The backward kernel of gathered attention that goes through keys: gradients of queries' side."""

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
from posenc.triton.spans import ends_of, key_tiles, steps_of, tile_at
from posenc.triton.tiles import product


@triton.jit(do_not_specialize=SIZES)
def gathered_query_kernel(
    q, k, v, out, dout, dq, lse, of_lse, delta, dg, dm,
    qb, qh, qt, qd, kb, kh, kt, kd, vb, vh, vt, vd, ob, oh, ot, od, gb, gh, gt, gd,
    wb, wh, wt, wd,
    g, g_size, g_zero, h, h_size, h_zero, h_group, m_size, m_zero,
    table, table_stride, size, zero, past, future, behind, ahead,
    q_at, k_at, q_order, k_order, q_document, k_document, k_valid, at_stride,
    entries, ends, scale, natural, heads, group, q_len, k_len,
    DIM: tl.constexpr, VALUE_DIM: tl.constexpr, CAUSAL: tl.constexpr, WIDTH: tl.constexpr,
    SINKS: tl.constexpr, PREFIX: tl.constexpr, PLAIN: tl.constexpr, KEY_ONLY: tl.constexpr,
    TABLE: tl.constexpr, SLOPE: tl.constexpr, PRECISION: tl.constexpr, DIRECT: tl.constexpr,
    LSE: tl.constexpr, OF_QUERIES: tl.constexpr, OF_KEYS: tl.constexpr, OF_VALUES: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, DP: tl.constexpr, EP: tl.constexpr,
):  # fmt: skip
    """dq for a tile of queries, but for what comes of their band, and delta as `query_kernel` does.

    dg  (b, h, tq, g_size), the gradient of the band of queries, zero where no key is met
    dm  (b, h, tq, m_size), dout times the vectors of values, a band
    """
    tiles = tl.cdiv(q_len, BM)
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
    in_q = i < q_len
    k += batch * kb + (far // group) * kh
    v += batch * vb + (far // group) * vh
    rows = (batch * heads + far) * q_len
    g += (rows + m0) * g_size
    dg += (rows + m0) * g_size
    dm += (rows + m0) * m_size
    h += (batch * (heads // h_group) + far // h_group) * k_len * h_size
    table += far * table_stride
    inside = in_q[:, None] & (d < DIM)[None, :]
    x = tl.load(q + batch * qb + far * qh + wide * qt + d[None, :] * qd, mask=inside, other=0.0)
    inside = in_q[:, None] & (e < VALUE_DIM)[None, :]
    at = batch * gb + far * gh + wide * gt + e[None, :] * gd
    do = tl.load(dout + at, mask=inside, other=0.0)
    o = tl.load(out + batch * ob + far * oh + wide * ot + e[None, :] * od, mask=inside, other=0.0)
    mean = tl.sum(do.to(lse.dtype.element_ty) * o.to(lse.dtype.element_ty), 1)
    if LSE:
        mean -= tl.load(of_lse + rows + i, mask=in_q, other=0.0)
    tl.store(delta + rows + i, mean, mask=in_q)
    bias = ends_of_table(table, size, TABLE)
    slopes = slopes_of(past, future, head, SLOPE)
    queries = query_side(i, row, q_at, q_order, q_document, q_len, k_len, PLAIN)
    base = m0 // REBASE * REBASE + (k_len - q_len) if PLAIN else tl.max(queries[0], 0)
    level = tl.load(lse + rows + i, mask=in_q, other=float("inf")) - row_shift(
        queries[0], base, slopes[0], KEY_ONLY, lse.dtype.element_ty
    )
    g_ends = both_ends(g, g_size, in_q, OF_QUERIES, lse.dtype.element_ty)
    m_ends = both_ends(dm, m_size, in_q, OF_VALUES, lse.dtype.element_ty)
    acc = tl.zeros((BM, DP), lse.dtype.element_ty)
    of_past = tl.zeros((BM,), lse.dtype.element_ty)
    of_future = tl.zeros((BM,), lse.dtype.element_ty)
    span = m0
    if PLAIN:
        span = key_tiles(
            m0, q_len, k_len, behind, ahead, CAUSAL, WIDTH, SINKS, PREFIX, True, BM, BN
        )
    entries += (row * tiles + tile) * tl.cdiv(k_len, BN)
    counts = ends_of(span, ends + (row * tiles + tile) * 3, PLAIN)
    for kind in tl.static_range(3):
        begin, stop = steps_of(counts, kind)
        for step in range(begin, stop):
            n, is_ahead = tile_at(step, span, entries, kind == 0, kind == 2, False, PLAIN)
            j = n * BN + tl.arange(0, BN)
            in_k = j < k_len
            wide_j = j.to(tl.int64)[:, None]
            y_mask = (d < DIM)[None, :]
            z_mask = (e < VALUE_DIM)[None, :]
            if kind == 2:
                y_mask = y_mask & in_k[:, None]
                z_mask = z_mask & in_k[:, None]
            y = tl.load(k + wide_j * kt + d[None, :] * kd, mask=y_mask, other=0.0)
            z = tl.load(v + wide_j * vt + e[None, :] * vd, mask=z_mask, other=0.0)
            s = product(x, tl.trans(y), lse.dtype.element_ty, PRECISION)
            keys = key_side(j, row, k_at, k_order, k_document, k_valid, k_len, PLAIN)
            of_tile = h + (n * BN).to(tl.int64) * h_size
            s = with_bands(
                s, g, g_size, g_zero, of_tile, h_size, h_zero, g_ends, queries, keys, in_q, in_k,
                is_ahead, OF_QUERIES, OF_KEYS, DIRECT, False, kind == 0,
            )  # fmt: skip
            s = tile_scores(
                s, scale, j, n * BN, queries, keys, base, table, size, zero, bias, slopes, is_ahead,
                lse, (0.0, 0.0), k_len, CAUSAL, WIDTH, SINKS, PREFIX, PLAIN, KEY_ONLY, TABLE,
                SLOPE, False, DIRECT, False, kind == 0, kind == 2,
            )  # fmt: skip
            p = tl.exp2(s - level[:, None])
            dp = product(do, tl.trans(z), lse.dtype.element_ty, PRECISION)
            if OF_VALUES:
                dp += of_query_band(
                    dm, m_size, m_zero, m_ends, queries, keys, in_q, is_ahead, DIRECT, False,
                    kind == 0,
                ).to(dp.dtype)  # fmt: skip
            ds = p * (dp - mean[:, None])
            acc += product(ds.to(y.dtype), y, lse.dtype.element_ty, PRECISION)
            if OF_QUERIES and kind == 0:
                of_row = tl.sum(ds, 1)
                of_past += tl.where(is_ahead, 0.0, of_row)
                of_future += tl.where(is_ahead, of_row, 0.0)
            elif OF_QUERIES:
                seen = in_q[:, None] & (s != float("-inf"))
                place = places(queries[0], keys[0], g_zero, False)
                first, last = put_near(dg, g_size, place, ds, seen, natural)
                of_past += first
                of_future += last
    if OF_QUERIES:
        put_ends(dg, g_size, of_past, of_future, in_q, natural)
    target = dq + batch * wb + far * wh + wide * wt + d[None, :] * wd
    inside = in_q[:, None] & (d < DIM)[None, :]
    tl.store(target, (acc * natural).to(dq.dtype.element_ty), mask=inside)
