"""Forward kernels of attention whose scores and values read vectors by distance."""

import triton
import triton.language as tl

from posenc.triton.gathered_scores import (
    both_ends,
    places,
    put_ends,
    put_near,
    with_bands,
)
from posenc.triton.kernel_args import LENGTHS
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
from posenc.triton.tiles import finish, product

# What differs from call to call besides.
SIZES = (*LENGTHS, "g_size", "g_zero", "h_size", "h_zero", "m_size", "m_zero", "h_group")


@triton.jit(do_not_specialize=SIZES)
def gathered_forward_kernel(
    q, k, v, out, lse, far_masses, qb, qh, qt, qd, kb, kh, kt, kd, vb, vh, vt, vd, ob, oh, ot, od,
    g, g_size, g_zero, h, h_size, h_zero, h_group,
    table, table_stride, size, zero, past, future, behind, ahead,
    q_at, k_at, q_order, k_order, q_document, k_document, k_valid, at_stride,
    entries, ends, scale, heads, group, q_len, k_len,
    DIM: tl.constexpr, VALUE_DIM: tl.constexpr, CAUSAL: tl.constexpr, WIDTH: tl.constexpr,
    SINKS: tl.constexpr, PREFIX: tl.constexpr, PLAIN: tl.constexpr, KEY_ONLY: tl.constexpr,
    TABLE: tl.constexpr, SLOPE: tl.constexpr, PRECISION: tl.constexpr, DIRECT: tl.constexpr,
    OF_QUERIES: tl.constexpr, OF_KEYS: tl.constexpr, OF_VALUES: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, DP: tl.constexpr, EP: tl.constexpr,
):  # fmt: skip
    """out (b, h, tq, e) of the values alone, and lse (b, h, tq) in units of log 2.

    g           (b, h, tq, g_size) band of the queries
    h           (b, h / h_group, tk, h_size) band of the keys
    far_masses  (b, h, tq, 2): with OF_VALUES, the weights of all far tiles of the past, of the
                future
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
    inside = in_q[:, None] & (d < DIM)[None, :]
    x = tl.load(q + batch * qb + far * qh + wide * qt + d[None, :] * qd, mask=inside, other=0.0)
    k += batch * kb + (far // group) * kh
    v += batch * vb + (far // group) * vh
    g += ((batch * heads + far) * q_len + m0) * g_size
    h += (batch * (heads // h_group) + far // h_group) * k_len * h_size
    table += far * table_stride
    bias = ends_of_table(table, size, TABLE)
    slopes = slopes_of(past, future, head, SLOPE)
    queries = query_side(i, row, q_at, q_order, q_document, q_len, k_len, PLAIN)
    base = m0 // REBASE * REBASE + (k_len - q_len) if PLAIN else tl.max(queries[0], 0)
    shift = row_shift(queries[0], base, slopes[0], KEY_ONLY, lse.dtype.element_ty)
    g_ends = both_ends(g, g_size, in_q, OF_QUERIES, lse.dtype.element_ty)
    top = tl.full((BM,), float("-inf"), lse.dtype.element_ty)
    total = tl.zeros((BM,), lse.dtype.element_ty)
    of_past = tl.zeros((BM,), lse.dtype.element_ty)
    of_future = tl.zeros((BM,), lse.dtype.element_ty)
    acc = tl.zeros((BM, EP), lse.dtype.element_ty)
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
            far_j = j.to(tl.int64)
            in_k = j < k_len
            y_mask = (d < DIM)[:, None]
            z_mask = (e < VALUE_DIM)[None, :]
            if kind == 2:
                y_mask = y_mask & in_k[None, :]
                z_mask = z_mask & in_k[:, None]
            y = tl.load(k + far_j[None, :] * kt + d[:, None] * kd, mask=y_mask, other=0.0)
            s = product(x, y, lse.dtype.element_ty, PRECISION)
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
            higher = tl.maximum(top, tl.max(s, 1))
            # A row that has seen nothing yet: -inf - -inf would be NaN.
            p = tl.exp2(s - tl.where(higher == float("-inf"), 0.0, higher)[:, None])
            keep = tl.exp2(top - tl.where(higher == float("-inf"), 0.0, higher))
            mass = tl.sum(p, 1)
            total = total * keep + mass
            if OF_VALUES:
                of_past *= keep
                of_future *= keep
                if kind == 0:
                    of_past += tl.where(is_ahead, 0.0, mass)
                    of_future += tl.where(is_ahead, mass, 0.0)
            z = tl.load(v + far_j[:, None] * vt + e[None, :] * vd, mask=z_mask, other=0.0)
            acc *= keep[:, None]
            acc += product(p.to(z.dtype), z, acc.dtype, PRECISION)
            top = higher
    rows = (batch * heads + far) * q_len + i
    if OF_VALUES:
        some = tl.where(total == 0.0, 1.0, total)
        tl.store(far_masses + 2 * rows, of_past / some, mask=in_q)
        tl.store(far_masses + 2 * rows + 1, of_future / some, mask=in_q)
    acc, level = finish(top, total, acc, "inf")
    tl.store(lse + rows, level + shift, mask=in_q)
    target = out + batch * ob + far * oh + wide * ot + e[None, :] * od
    inside = in_q[:, None] & (e < VALUE_DIM)[None, :]
    tl.store(target, acc.to(out.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=SIZES)
def masses_kernel(
    q, k, lse, far_masses, masses, m_size, m_zero, qb, qh, qt, qd, kb, kh, kt, kd,
    g, g_size, g_zero, h, h_size, h_zero, h_group,
    table, table_stride, size, zero, past, future, behind, ahead,
    q_at, k_at, q_order, k_order, q_document, k_document, k_valid, at_stride,
    entries, ends, scale, heads, group, q_len, k_len,
    DIM: tl.constexpr, CAUSAL: tl.constexpr, WIDTH: tl.constexpr,
    SINKS: tl.constexpr, PREFIX: tl.constexpr, PLAIN: tl.constexpr, KEY_ONLY: tl.constexpr,
    TABLE: tl.constexpr, SLOPE: tl.constexpr, PRECISION: tl.constexpr, DIRECT: tl.constexpr,
    OF_QUERIES: tl.constexpr, OF_KEYS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, DP: tl.constexpr,
):  # fmt: skip
    """masses (b, h, tq, m_size), a band of the weights of each distance, zero where none is met.

    What far tiles hold is known; the others are met once more, for their weights need the whole
    row's sum.
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
    wide = i.to(tl.int64)[:, None]
    in_q = i < q_len
    inside = in_q[:, None] & (d < DIM)[None, :]
    x = tl.load(q + batch * qb + far * qh + wide * qt + d[None, :] * qd, mask=inside, other=0.0)
    k += batch * kb + (far // group) * kh
    g += ((batch * heads + far) * q_len + m0) * g_size
    h += (batch * (heads // h_group) + far // h_group) * k_len * h_size
    masses += ((batch * heads + far) * q_len + m0) * m_size
    table += far * table_stride
    bias = ends_of_table(table, size, TABLE)
    slopes = slopes_of(past, future, head, SLOPE)
    queries = query_side(i, row, q_at, q_order, q_document, q_len, k_len, PLAIN)
    base = m0 // REBASE * REBASE + (k_len - q_len) if PLAIN else tl.max(queries[0], 0)
    rows = (batch * heads + far) * q_len + i
    level = tl.load(lse + rows, mask=in_q, other=float("inf")) - row_shift(
        queries[0], base, slopes[0], KEY_ONLY, lse.dtype.element_ty
    )
    of_past = tl.load(far_masses + 2 * rows, mask=in_q, other=0.0)
    of_future = tl.load(far_masses + 2 * rows + 1, mask=in_q, other=0.0)
    span = m0
    if PLAIN:
        span = key_tiles(
            m0, q_len, k_len, behind, ahead, CAUSAL, WIDTH, SINKS, PREFIX, True, BM, BN
        )
    entries += (row * tiles + tile) * tl.cdiv(k_len, BN)
    counts = ends_of(span, ends + (row * tiles + tile) * 3, PLAIN)
    for kind in tl.static_range(1, 3):
        begin, stop = steps_of(counts, kind)
        for step in range(begin, stop):
            n, is_ahead = tile_at(step, span, entries, False, kind == 2, False, PLAIN)
            j = n * BN + tl.arange(0, BN)
            in_k = j < k_len
            y_mask = (d < DIM)[:, None]
            if kind == 2:
                y_mask = y_mask & in_k[None, :]
            at = j.to(tl.int64)[None, :] * kt + d[:, None] * kd
            y = tl.load(k + at, mask=y_mask, other=0.0)
            s = product(x, y, lse.dtype.element_ty, PRECISION)
            keys = key_side(j, row, k_at, k_order, k_document, k_valid, k_len, PLAIN)
            of_tile = h + (n * BN).to(tl.int64) * h_size
            s = with_bands(
                s, g, g_size, g_zero, of_tile, h_size, h_zero, (0.0, 0.0), queries, keys, in_q,
                in_k, is_ahead, OF_QUERIES, OF_KEYS, DIRECT, False, False,
            )  # fmt: skip
            s = tile_scores(
                s, scale, j, n * BN, queries, keys, base, table, size, zero, bias, slopes, is_ahead,
                lse, (0.0, 0.0), k_len, CAUSAL, WIDTH, SINKS, PREFIX, PLAIN, KEY_ONLY, TABLE,
                SLOPE, False, DIRECT, False, False, kind == 2,
            )  # fmt: skip
            p = tl.exp2(s - level[:, None])
            seen = in_q[:, None] & (s != float("-inf"))
            place = places(queries[0], keys[0], m_zero, False)
            first, last = put_near(masses, m_size, place, p, seen, 1.0)
            of_past += first
            of_future += last
    put_ends(masses, m_size, of_past, of_future, in_q, 1.0)
