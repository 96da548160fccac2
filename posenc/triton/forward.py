"""The forward kernel: softmax over key tiles as they come (FlashAttention), bias included."""

import triton
import triton.language as tl

from posenc.triton.tiles import add_tile, finish, key_span, product, tile_scores, with_sink


@triton.jit
def forward_kernel(
    q, k, v, out, lse, qb, qh, qt, qd, kb, kh, kt, kd, vb, vh, vt, vd, ob, oh, ot, od,
    table, table_stride, size, zero, past, future, sink,
    q_at, k_at, q_order, k_order, q_document, k_document, k_valid, at_stride,
    tile_map, map_stride, scale, heads, group, q_len, k_len,
    DIM: tl.constexpr, VALUE_DIM: tl.constexpr, CAUSAL: tl.constexpr, WIDTH: tl.constexpr,
    SINKS: tl.constexpr, PREFIX: tl.constexpr, PLAIN: tl.constexpr, KEY_ONLY: tl.constexpr,
    TABLE: tl.constexpr, SLOPE: tl.constexpr, PRECISION: tl.constexpr, SINK: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, DP: tl.constexpr, EP: tl.constexpr,
):  # fmt: skip
    """out (b, h, tq, e) and lse (b, h, tq) in units of log 2, +inf for a row that sees nothing."""
    # Long rows first: under causality the last tiles have most to do.
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
    inside = (i < q_len)[:, None] & (d < DIM)[None, :]
    x = tl.load(q + batch * qb + far * qh + wide * qt + d[None, :] * qd, mask=inside, other=0.0)
    k += batch * kb + (far // group) * kh + d[:, None] * kd
    v += batch * vb + (far // group) * vh + e[None, :] * vd
    top = tl.full((BM,), float("-inf"), lse.dtype.element_ty)
    total = tl.zeros((BM,), lse.dtype.element_ty)
    if SINK:
        top, total = with_sink(tl.load(sink + head), top, total)
    acc = tl.zeros((BM, EP), lse.dtype.element_ty)
    lo, hi, sinks = key_span(m0, q_len, k_len, CAUSAL, WIDTH, SINKS, PREFIX, PLAIN, BM, BN)
    for step in range(0, sinks + hi - lo):
        n = step if step < sinks else step - sinks + lo
        n0 = n * BN
        some = True
        if not PLAIN:
            some = tl.load(tile_map + row * map_stride + tile * tl.cdiv(k_len, BN) + n) != 0
        if some:
            j = n0 + tl.arange(0, BN)
            far_j = j.to(tl.int64)
            y = tl.load(
                k + far_j[None, :] * kt, mask=(d < DIM)[:, None] & (j < k_len)[None, :], other=0.0
            )
            s = product(x, y, lse.dtype.element_ty, PRECISION)
            s = tile_scores(
                s, scale, i, j, m0, n0, row, head, table, table_stride, size, zero, past, future,
                q_at, k_at, q_order, k_order, q_document, k_document, k_valid, q_len, k_len,
                CAUSAL, WIDTH, SINKS, PREFIX, PLAIN, KEY_ONLY, TABLE, SLOPE, False, BM, BN,
            )  # fmt: skip
            shown = (j < k_len)[:, None] & (e < VALUE_DIM)[None, :]
            values = v + far_j[:, None] * vt
            top, total, acc = add_tile(s, values, shown, top, total, acc, PRECISION)
    acc, level = finish(top, total, acc, "inf")
    tl.store(lse + (batch * heads + far) * q_len + i, level, mask=i < q_len)
    target = out + batch * ob + far * oh + wide * ot + e[None, :] * od
    inside = (i < q_len)[:, None] & (e < VALUE_DIM)[None, :]
    tl.store(target, acc.to(out.dtype.element_ty), mask=inside)
