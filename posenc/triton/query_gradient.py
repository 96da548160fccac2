"""The backward kernel that goes through keys: gradients of queries and a table."""

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
from posenc.triton.tiles import product


@triton.jit(do_not_specialize=LENGTHS)
def query_kernel(
    q, k, v, out, dout, dq, lse, of_lse, delta, sums, beyond,
    qb, qh, qt, qd, kb, kh, kt, kd, vb, vh, vt, vd, ob, oh, ot, od, gb, gh, gt, gd,
    wb, wh, wt, wd,
    table, table_stride, size, zero, past, future, behind, ahead,
    q_offset, k_offset, offset_stride,
    q_at, k_at, q_order, k_order, q_document, k_document, k_valid, at_stride,
    entries, ends, first_tile, some_tiles, lowest, diagonals,
    scale, natural, heads, group, q_len, k_len,
    DIM: tl.constexpr, VALUE_DIM: tl.constexpr, CAUSAL: tl.constexpr, WIDTH: tl.constexpr,
    SINKS: tl.constexpr, PREFIX: tl.constexpr, PLAIN: tl.constexpr, KEY_ONLY: tl.constexpr,
    TABLE: tl.constexpr, SLOPE: tl.constexpr, OFFSETS: tl.constexpr, PRECISION: tl.constexpr,
    DIRECT: tl.constexpr, LSE: tl.constexpr, SUMS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, DP: tl.constexpr, EP: tl.constexpr,
):  # fmt: skip
    """dq for a tile of queries, and delta (b, h, tq), the mean of dp over each row.

    Tiles are first_tile and the next some_tiles - 1. With LSE, of_lse (b, h, tq) is the gradient of
    each row's lse, which is taken off the mean. With SUMS, for tables that learn,

    sums    (b, h, some_tiles, diagonals, BM / BN + 1, BN): sums of ds along the diagonals of the
            tile (m, n) with n - m * BM / BN = lowest + its place; [x, c] is diagonal
            c + BN * (x - BM / BN) of it. Of tiles that nobody meets they are as they came
    beyond  (b, h, some_tiles): the sums of all tiles further in the future
    """
    tiles = tl.cdiv(q_len, BM)
    place = some_tiles - 1 - tl.program_id(0) % some_tiles
    tile = first_tile + place
    head = tl.program_id(0) // some_tiles
    batch = (head // heads).to(tl.int64)
    head = head % heads
    far = head.to(tl.int64)
    row = batch * at_stride
    m0 = tile * BM
    i = m0 + tl.arange(0, BM)
    d = tl.arange(0, DP)
    e = tl.arange(0, EP)
    wide = i.to(tl.int64)[:, None]
    k += batch * kb + (far // group) * kh
    v += batch * vb + (far // group) * vh
    lse += (batch * heads + far) * q_len
    delta += (batch * heads + far) * q_len
    table += far * table_stride
    q_offset += batch * offset_stride * heads * q_len + far * q_len
    k_offset += batch * offset_stride * heads * k_len + far * k_len
    inside = (i < q_len)[:, None] & (d < DIM)[None, :]
    x = tl.load(q + batch * qb + far * qh + wide * qt + d[None, :] * qd, mask=inside, other=0.0)
    inside = (i < q_len)[:, None] & (e < VALUE_DIM)[None, :]
    g = tl.load(dout + batch * gb + far * gh + wide * gt + e[None, :] * gd, mask=inside, other=0.0)
    o = tl.load(out + batch * ob + far * oh + wide * ot + e[None, :] * od, mask=inside, other=0.0)
    mean = tl.sum(g.to(lse.dtype.element_ty) * o.to(lse.dtype.element_ty), 1)
    if LSE:
        mean -= tl.load(of_lse + (batch * heads + far) * q_len + i, mask=i < q_len, other=0.0)
    tl.store(delta + i, mean, mask=i < q_len)
    bias = ends_of_table(table, size, TABLE)
    slopes = slopes_of(past, future, head, SLOPE)
    offsets = offsets_of(q_offset, i, q_len, OFFSETS, lse.dtype.element_ty)
    queries = query_side(i, row, q_at, q_order, q_document, q_len, k_len, PLAIN)
    base = m0 // REBASE * REBASE + (k_len - q_len) if PLAIN else tl.max(queries[0], 0)
    level = tl.load(lse + i, mask=i < q_len, other=float("inf")) - row_shift(
        queries[0], base, slopes[0], KEY_ONLY, lse.dtype.element_ty
    )
    acc = tl.zeros((BM, DP), lse.dtype.element_ty)
    acc_beyond = tl.zeros((BM,), lse.dtype.element_ty)
    of_sums = (batch * heads + far) * some_tiles + place
    span = m0
    if PLAIN:
        span = key_tiles(
            m0, q_len, k_len, behind, ahead, CAUSAL, WIDTH, SINKS, PREFIX,
            TABLE or (SLOPE and not KEY_ONLY), BM, BN,
        )  # fmt: skip
    entries += (row * tiles + tile) * tl.cdiv(k_len, BN)
    counts = ends_of(span, ends + (row * tiles + tile) * 3, PLAIN)
    for kind in tl.static_range(3):
        if kind != 1 or TABLE or (SLOPE and not KEY_ONLY):
            begin, stop = steps_of(counts, kind)
            for step in range(begin, stop):
                n, is_ahead = tile_at(step, span, entries, kind == 0, kind == 2, False, PLAIN)
                j = n * BN + tl.arange(0, BN)
                wide_j = j.to(tl.int64)[:, None]
                y_mask = (d < DIM)[None, :]
                z_mask = (e < VALUE_DIM)[None, :]
                if kind == 2:
                    y_mask = y_mask & (j < k_len)[:, None]
                    z_mask = z_mask & (j < k_len)[:, None]
                y = tl.load(k + wide_j * kt + d[None, :] * kd, mask=y_mask, other=0.0)
                z = tl.load(v + wide_j * vt + e[None, :] * vd, mask=z_mask, other=0.0)
                s = product(x, tl.trans(y), lse.dtype.element_ty, PRECISION)
                keys = key_side(j, row, k_at, k_order, k_document, k_valid, k_len, PLAIN)
                s = tile_scores(
                    s, scale, j, n * BN, queries, keys, base, table, size, zero, bias, slopes,
                    is_ahead, k_offset, offsets, k_len, CAUSAL, WIDTH, SINKS, PREFIX, PLAIN,
                    KEY_ONLY, TABLE, SLOPE, OFFSETS, DIRECT, False, kind == 0, kind == 2,
                )  # fmt: skip
                p = tl.exp2(s - level[:, None])
                ds = p * (product(g, tl.trans(z), lse.dtype.element_ty, PRECISION) - mean[:, None])
                acc += product(ds.to(y.dtype), y, lse.dtype.element_ty, PRECISION)
                # A causal table has no far future.
                if SUMS and kind == 0 and (not CAUSAL or PREFIX > 0):
                    acc_beyond += tl.where(is_ahead, tl.sum(ds, 1), 0.0)
                if SUMS and kind != 0:
                    place = n - tile * (BM // BN) - lowest
                    target = sums + (of_sums * diagonals + place) * (BM + BN)
                    add_diagonals(ds, target, place, diagonals, BM, BN)
                    if kind == 2 and (not CAUSAL or PREFIX > 0):
                        acc_beyond += tl.where(place >= diagonals, tl.sum(ds, 1), 0.0)
    if SUMS:
        tl.store(beyond + of_sums, tl.sum(acc_beyond, 0))
    target = dq + batch * wb + far * wh + wide * wt + d[None, :] * wd
    inside = (i < q_len)[:, None] & (d < DIM)[None, :]
    tl.store(target, (acc * natural).to(dq.dtype.element_ty), mask=inside)


@triton.jit
def add_diagonals(ds, target, place, diagonals, BM: tl.constexpr, BN: tl.constexpr):
    """Sums of a tile (BM queries, BN keys) along its diagonals, BN of them at a time.

    Nothing is stored unless its place is one of the diagonals of tiles.
    """
    r = tl.arange(0, BM)
    c = tl.arange(0, BN)
    # Column c of what is skewed holds the pairs k - q = c - BN * turn. One line of all goes through
    # shared memory, where rows would be shuffled value by value.
    sheared = r[:, None] + c[None, :]
    turn = sheared // BN
    flat = tl.reshape(r[:, None] * BN + sheared % BN, (BM * BN,))
    skewed = tl.reshape(tl.gather(tl.reshape(ds, (BM * BN,)), flat, 0), (BM, BN))
    here = (place * BN + c >= 0) & (place * BN + c < diagonals * BN)
    for part in tl.static_range(BM // BN + 1):
        chosen = tl.sum(tl.where(turn == BM // BN - part, skewed, 0.0), 0)
        tl.store(target + part * BN + c, chosen, mask=here)
