"""The backward kernels: dq, then dk and dv, then the gradient of a table. None uses atomics."""

import triton
import triton.language as tl

from posenc.triton.tiles import key_span, of_queries, product, query_span, tile_scores


@triton.jit
def tile_gradient(
    q, k, v, dout, lse, delta, qt, qd, kt, kd, vt, vd, gt, gd,
    scale, i, j, m0, n0, row, head, table, table_stride, size, zero, past, future,
    q_at, k_at, q_order, k_order, q_document, k_document, k_valid, q_len, k_len,
    DIM: tl.constexpr, VALUE_DIM: tl.constexpr, CAUSAL: tl.constexpr, WIDTH: tl.constexpr,
    SINKS: tl.constexpr, PREFIX: tl.constexpr, PLAIN: tl.constexpr, KEY_ONLY: tl.constexpr,
    TABLE: tl.constexpr, SLOPE: tl.constexpr, PRECISION: tl.constexpr, KEYS_FIRST: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, DP: tl.constexpr, EP: tl.constexpr,
):  # fmt: skip
    """q, k and dout of a tile, its weights p and the gradient ds of its scores.

    Those two are (BM, BN), or (BN, BM) where KEYS_FIRST: what multiplies from the left next is
    computed the way that it is needed, for transposing it would take it through shared memory.
    Pointers are those of one batch entry and head.
    """
    d = tl.arange(0, DP)
    e = tl.arange(0, EP)
    wide_i = i.to(tl.int64)[:, None]
    wide_j = j.to(tl.int64)[:, None]
    in_q = (i < q_len)[:, None]
    in_k = (j < k_len)[:, None]
    in_d = (d < DIM)[None, :]
    in_e = (e < VALUE_DIM)[None, :]
    x = tl.load(q + wide_i * qt + d[None, :] * qd, mask=in_q & in_d, other=0.0)
    y = tl.load(k + wide_j * kt + d[None, :] * kd, mask=in_k & in_d, other=0.0)
    z = tl.load(v + wide_j * vt + e[None, :] * vd, mask=in_k & in_e, other=0.0)
    g = tl.load(dout + wide_i * gt + e[None, :] * gd, mask=in_q & in_e, other=0.0)
    level = tl.load(lse + i, mask=i < q_len, other=float("inf"))
    mean = tl.load(delta + i, mask=i < q_len, other=0.0)
    if KEYS_FIRST:
        s = product(y, tl.trans(x), lse.dtype.element_ty, PRECISION)
        dp = product(z, tl.trans(g), lse.dtype.element_ty, PRECISION)
    else:
        s = product(x, tl.trans(y), lse.dtype.element_ty, PRECISION)
        dp = product(g, tl.trans(z), lse.dtype.element_ty, PRECISION)
    s = tile_scores(
        s, scale, i, j, m0, n0, row, head, table, table_stride, size, zero, past, future,
        q_at, k_at, q_order, k_order, q_document, k_document, k_valid, q_len, k_len,
        CAUSAL, WIDTH, SINKS, PREFIX, PLAIN, KEY_ONLY, TABLE, SLOPE, KEYS_FIRST, BM, BN,
    )  # fmt: skip
    p = tl.exp2(s - of_queries(level, KEYS_FIRST))
    return x, y, g, p, p * (dp - of_queries(mean, KEYS_FIRST))


@triton.jit
def query_kernel(
    q, k, v, out, dout, dq, lse, delta,
    qb, qh, qt, qd, kb, kh, kt, kd, vb, vh, vt, vd, ob, oh, ot, od, gb, gh, gt, gd,
    wb, wh, wt, wd,
    table, table_stride, size, zero, past, future,
    q_at, k_at, q_order, k_order, q_document, k_document, k_valid, at_stride,
    tile_map, map_stride, scale, natural, heads, group, q_len, k_len,
    DIM: tl.constexpr, VALUE_DIM: tl.constexpr, CAUSAL: tl.constexpr, WIDTH: tl.constexpr,
    SINKS: tl.constexpr, PREFIX: tl.constexpr, PLAIN: tl.constexpr, KEY_ONLY: tl.constexpr,
    TABLE: tl.constexpr, SLOPE: tl.constexpr, PRECISION: tl.constexpr, LSE: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, DP: tl.constexpr, EP: tl.constexpr,
):  # fmt: skip
    """dq for a tile of queries, and delta (b, h, tq), the mean of dp over each row.

    LSE says that delta comes with the gradient of each row's lse, which is taken off the mean.
    """
    tile = tl.num_programs(0) - 1 - tl.program_id(0)
    batch = (tl.program_id(1) // heads).to(tl.int64)
    head = tl.program_id(1) % heads
    far = head.to(tl.int64)
    row = batch * at_stride
    m0 = tile * BM
    i = m0 + tl.arange(0, BM)
    d = tl.arange(0, DP)
    e = tl.arange(0, EP)
    wide = i.to(tl.int64)[:, None]
    q += batch * qb + far * qh
    k += batch * kb + (far // group) * kh
    v += batch * vb + (far // group) * vh
    dout += batch * gb + far * gh
    lse += (batch * heads + far) * q_len
    delta += (batch * heads + far) * q_len
    inside = (i < q_len)[:, None] & (e < VALUE_DIM)[None, :]
    g = tl.load(dout + wide * gt + e[None, :] * gd, mask=inside, other=0.0)
    o = tl.load(out + batch * ob + far * oh + wide * ot + e[None, :] * od, mask=inside, other=0.0)
    mean = tl.sum(g.to(lse.dtype.element_ty) * o.to(lse.dtype.element_ty), 1)
    if LSE:
        mean -= tl.load(delta + i, mask=i < q_len, other=0.0)
    tl.store(delta + i, mean, mask=i < q_len)
    tl.debug_barrier()
    acc = tl.zeros((BM, DP), lse.dtype.element_ty)
    lo, hi, sinks = key_span(m0, q_len, k_len, CAUSAL, WIDTH, SINKS, PREFIX, PLAIN, BM, BN)
    for step in range(0, sinks + hi - lo):
        n = step if step < sinks else step - sinks + lo
        n0 = n * BN
        some = True
        if not PLAIN:
            some = tl.load(tile_map + row * map_stride + tile * tl.cdiv(k_len, BN) + n) != 0
        if some:
            j = n0 + tl.arange(0, BN)
            _, y, _, _, ds = tile_gradient(
                q, k, v, dout, lse, delta, qt, qd, kt, kd, vt, vd, gt, gd,
                scale, i, j, m0, n0, row, head, table, table_stride, size, zero, past, future,
                q_at, k_at, q_order, k_order, q_document, k_document, k_valid, q_len, k_len,
                DIM, VALUE_DIM, CAUSAL, WIDTH, SINKS, PREFIX, PLAIN, KEY_ONLY, TABLE, SLOPE,
                PRECISION, False, BM, BN, DP, EP,
            )  # fmt: skip
            acc += product(ds.to(y.dtype), y, lse.dtype.element_ty, PRECISION)
    target = dq + batch * wb + far * wh + wide * wt + d[None, :] * wd
    inside = (i < q_len)[:, None] & (d < DIM)[None, :]
    tl.store(target, (acc * natural).to(dq.dtype.element_ty), mask=inside)


@triton.jit
def key_kernel(
    q, k, v, dout, dk, dv, lse, delta,
    qb, qh, qt, qd, kb, kh, kt, kd, vb, vh, vt, vd, gb, gh, gt, gd,
    wb, wh, wt, wd, zb, zh, zt, zd,
    table, table_stride, size, zero, past, future,
    q_at, k_at, q_order, k_order, q_document, k_document, k_valid, at_stride,
    tile_map, map_stride, scale, natural, heads, group, q_len, k_len,
    DIM: tl.constexpr, VALUE_DIM: tl.constexpr, CAUSAL: tl.constexpr, WIDTH: tl.constexpr,
    SINKS: tl.constexpr, PREFIX: tl.constexpr, PLAIN: tl.constexpr, KEY_ONLY: tl.constexpr,
    TABLE: tl.constexpr, SLOPE: tl.constexpr, PRECISION: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, DP: tl.constexpr, EP: tl.constexpr,
):  # fmt: skip
    """dk and dv for a tile of keys, summed over the query heads that share them."""
    tile = tl.program_id(0)
    shared = heads // group
    batch = (tl.program_id(1) // shared).to(tl.int64)
    key_head = tl.program_id(1) % shared
    row = batch * at_stride
    n0 = tile * BN
    j = n0 + tl.arange(0, BN)
    d = tl.arange(0, DP)
    e = tl.arange(0, EP)
    wide = j.to(tl.int64)[:, None]
    far_key = key_head.to(tl.int64)
    k += batch * kb + far_key * kh
    v += batch * vb + far_key * vh
    acc_k = tl.zeros((BN, DP), lse.dtype.element_ty)
    acc_v = tl.zeros((BN, EP), lse.dtype.element_ty)
    lo, hi = query_span(n0, q_len, k_len, CAUSAL, WIDTH, SINKS, PREFIX, PLAIN, BM, BN)
    span = tl.maximum(hi - lo, 0)
    for step in range(0, group * span):
        head = key_head * group + step // span
        far = far_key * group + step // span
        m = lo + step % span
        m0 = m * BM
        some = True
        if not PLAIN:
            some = tl.load(tile_map + row * map_stride + m * tl.cdiv(k_len, BN) + tile) != 0
        if some:
            i = m0 + tl.arange(0, BM)
            x, _, g, p, ds = tile_gradient(
                q + batch * qb + far * qh, k, v, dout + batch * gb + far * gh,
                lse + (batch * heads + far) * q_len, delta + (batch * heads + far) * q_len,
                qt, qd, kt, kd, vt, vd, gt, gd,
                scale, i, j, m0, n0, row, head, table, table_stride, size, zero, past, future,
                q_at, k_at, q_order, k_order, q_document, k_document, k_valid, q_len, k_len,
                DIM, VALUE_DIM, CAUSAL, WIDTH, SINKS, PREFIX, PLAIN, KEY_ONLY, TABLE, SLOPE,
                PRECISION, True, BM, BN, DP, EP,
            )  # fmt: skip
            acc_k += product(ds.to(x.dtype), x, lse.dtype.element_ty, PRECISION)
            acc_v += product(p.to(g.dtype), g, lse.dtype.element_ty, PRECISION)
    inside = (j < k_len)[:, None] & (d < DIM)[None, :]
    target = dk + batch * wb + far_key * wh + wide * wt + d[None, :] * wd
    tl.store(target, (acc_k * natural).to(dk.dtype.element_ty), mask=inside)
    inside = (j < k_len)[:, None] & (e < VALUE_DIM)[None, :]
    target = dv + batch * zb + far_key * zh + wide * zt + e[None, :] * zd
    tl.store(target, acc_v.to(dv.dtype.element_ty), mask=inside)


@triton.jit
def diagonal_kernel(
    q, k, v, dout, sums, lse, delta,
    qb, qh, qt, qd, kb, kh, kt, kd, vb, vh, vt, vd, gb, gh, gt, gd,
    table, table_stride, size, zero, past, future,
    q_at, k_at, q_order, k_order, q_document, k_document, k_valid, at_stride,
    lowest, scale, heads, group, q_len, k_len,
    DIM: tl.constexpr, VALUE_DIM: tl.constexpr, CAUSAL: tl.constexpr, WIDTH: tl.constexpr,
    SINKS: tl.constexpr, PREFIX: tl.constexpr, PLAIN: tl.constexpr, KEY_ONLY: tl.constexpr,
    TABLE: tl.constexpr, SLOPE: tl.constexpr, PRECISION: tl.constexpr,
    B: tl.constexpr, DP: tl.constexpr, EP: tl.constexpr,
):  # fmt: skip
    """Sums of ds along the 2 B diagonals of all tiles (n, m) with n - m = lowest + program 0.

    sums (b, h, programs, 2, B): [0, c] is diagonal c - B of the tile, [1, c] is diagonal c.
    """
    step = lowest + tl.program_id(0)
    batch = (tl.program_id(1) // heads).to(tl.int64)
    head = tl.program_id(1) % heads
    far = head.to(tl.int64)
    acc = tl.zeros((B, B), lse.dtype.element_ty)
    q += batch * qb + far * qh
    k += batch * kb + (far // group) * kh
    v += batch * vb + (far // group) * vh
    dout += batch * gb + far * gh
    lse += (batch * heads + far) * q_len
    delta += (batch * heads + far) * q_len
    lo = tl.maximum(0, -step)
    hi = tl.minimum(tl.cdiv(q_len, B), tl.cdiv(k_len, B) - step)
    for m in range(lo, hi):
        i = m * B + tl.arange(0, B)
        j = (m + step) * B + tl.arange(0, B)
        _, _, _, _, ds = tile_gradient(
            q, k, v, dout, lse, delta, qt, qd, kt, kd, vt, vd, gt, gd,
            scale, i, j, m * B, (m + step) * B, batch * at_stride, head,
            table, table_stride, size, zero, past, future,
            q_at, k_at, q_order, k_order, q_document, k_document, k_valid, q_len, k_len,
            DIM, VALUE_DIM, CAUSAL, WIDTH, SINKS, PREFIX, PLAIN, KEY_ONLY, TABLE, SLOPE,
            PRECISION, False, B, B, DP, EP,
        )  # fmt: skip
        # All tiles of this program share their diagonals: they are added first, and skewed once.
        acc += ds
    r = tl.arange(0, B)
    sheared = r[:, None] + r[None, :]
    skewed = tl.gather(acc, sheared % B, 1)
    sums += ((tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)) * 2).to(tl.int64) * B
    tl.store(sums + r, tl.sum(tl.where(sheared >= B, skewed, 0.0), 0))
    tl.store(sums + B + r, tl.sum(tl.where(sheared < B, skewed, 0.0), 0))
