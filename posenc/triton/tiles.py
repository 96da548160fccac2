"""What one tile of scores is, the same in every attention kernel.

Scores are in units of log 2, so that exp2 takes them as they come. `low` and `high` bound the
distances k - q of a tile: beyond the ends of a table all of it is one number, and a tile that
everyone sees needs no mask. In PLAIN positions both follow from the tile's place alone.
"""

import triton
import triton.language as tl

# Slopes that depend on the key alone count from the start of this many queries, in every kernel.
REBASE = tl.constexpr(128)


@triton.jit
def product(a, b, DTYPE: tl.constexpr, PRECISION: tl.constexpr):
    """a @ b, added up in DTYPE."""
    if PRECISION == "widened":
        # Triton's interpreter multiplies the bits of bfloat16 as if they were whole numbers.
        c = tl.dot(a.to(tl.float32), b.to(tl.float32), out_dtype=DTYPE)
    else:
        c = tl.dot(a, b, input_precision=PRECISION, out_dtype=DTYPE)
    return c


@triton.jit
def add_tile(s, v, mask, top, total, acc, PRECISION: tl.constexpr):
    """A tile of scores s (m, n) and its values (n, e) added to a running softmax.

    top (m,) is the greatest score so far, total (m,) the sum of weights relative to it, and acc
    (m, e) that of weighted values; those three with the tile are returned.
    """
    higher = tl.maximum(top, tl.max(s, 1))
    # A row that has seen nothing yet: -inf - -inf would be NaN.
    shift = tl.where(higher == float("-inf"), 0.0, higher)
    p = tl.exp2(s - shift[:, None])
    keep = tl.exp2(top - shift)
    total = total * keep + tl.sum(p, 1)
    z = tl.load(v, mask=mask, other=0.0)
    return higher, total, acc * keep[:, None] + product(p.to(z.dtype), z, acc.dtype, PRECISION)


@triton.jit
def with_sink(sink, top, total):
    """The running softmax of rows that have met no key but a sink, which weighs 1 against itself.

    One of -inf weighs nothing.
    """
    return tl.full(top.shape, 0.0, top.dtype) + sink, total + tl.where(
        sink == float("-inf"), 0.0, 1.0
    )


@triton.jit
def finish(top, total, acc, EMPTY: tl.constexpr):
    """The output of a running softmax and its log-sum-exp, EMPTY for a row that saw nothing."""
    empty = total == 0.0
    some = tl.where(empty, 1.0, total)
    return acc / some[:, None], tl.where(empty, float(EMPTY), top + tl.log2(some))


@triton.jit
def of_queries(x, KEYS_FIRST: tl.constexpr):
    """A vector over queries, as tiles of (queries, keys) or of (keys, queries) meet it."""
    return x[None, :] if KEYS_FIRST else x[:, None]


@triton.jit
def of_keys(x, KEYS_FIRST: tl.constexpr):
    """The same of a vector over keys."""
    return x[:, None] if KEYS_FIRST else x[None, :]


@triton.jit
def tile_scores(
    s, scale, i, j, m0, n0, row, head,
    table, table_stride, size, zero, past, future,
    q_at, k_at, q_order, k_order, q_document, k_document, k_valid, q_len, k_len,
    CAUSAL: tl.constexpr, WIDTH: tl.constexpr, SINKS: tl.constexpr, PREFIX: tl.constexpr,
    PLAIN: tl.constexpr, KEY_ONLY: tl.constexpr, TABLE: tl.constexpr, SLOPE: tl.constexpr,
    KEYS_FIRST: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Scaled products s with biases, and -inf where not visible.

    s is (BM, BN), queries by keys, or (BN, BM) where KEYS_FIRST.
    """
    s = s * scale
    if PLAIN:
        qp = i + (k_len - q_len)
        kp = j
        qo = qp
        ko = kp
        first = m0 + (k_len - q_len)
        low = n0 - (first + BM - 1)
        high = n0 + BN - 1 - first
    else:
        qp = tl.load(q_at + row * q_len + i, mask=i < q_len, other=0)
        kp = tl.load(k_at + row * k_len + j, mask=j < k_len, other=0)
        qo = tl.load(q_order + row * q_len + i, mask=i < q_len, other=0)
        ko = tl.load(k_order + row * k_len + j, mask=j < k_len, other=0)
        low = tl.min(kp, 0) - tl.max(qp, 0)
        high = tl.max(kp, 0) - tl.min(qp, 0)
    if SLOPE:
        slope = tl.load(past + head)
        if KEY_ONLY:
            # What a row shares leaves its softmax as it is; the count from near keeps it precise.
            base = m0 // REBASE * REBASE + (k_len - q_len)
            s += of_keys(slope * (kp - base).to(s.dtype), KEYS_FIRST)
        else:
            distance = of_keys(kp, KEYS_FIRST) - of_queries(qp, KEYS_FIRST)
            distance = distance.to(s.dtype)
            s += tl.where(distance <= 0, slope, -tl.load(future + head)) * distance
    if TABLE:
        table += head * table_stride
        if high + zero <= 0:
            s += tl.load(table)
        elif low + zero >= size - 1:
            s += tl.load(table + size - 1)
        else:
            index = of_keys(kp, KEYS_FIRST) - of_queries(qp, KEYS_FIRST) + zero
            s += tl.load(table + tl.minimum(tl.maximum(index, 0), size - 1))
    if PLAIN:
        hidden = n0 + BN > k_len
        if CAUSAL:
            hidden = hidden | (high > 0)
        if WIDTH > 0:
            hidden = hidden | (low <= -WIDTH) | (high >= WIDTH)
        if hidden:
            orders = of_queries(qo, KEYS_FIRST), of_keys(ko, KEYS_FIRST)
            seen = _visible(orders[0], orders[1], CAUSAL, WIDTH, SINKS, PREFIX)
            seen = seen & of_keys(j < k_len, KEYS_FIRST)
            s = tl.where(seen, s, float("-inf"))
    else:
        qd = tl.load(q_document + row * q_len + i, mask=i < q_len, other=0)
        kd = tl.load(k_document + row * k_len + j, mask=j < k_len, other=0)
        valid = tl.load(k_valid + row * k_len + j, mask=j < k_len, other=0) != 0
        orders = of_queries(qo, KEYS_FIRST), of_keys(ko, KEYS_FIRST)
        seen = _visible(orders[0], orders[1], CAUSAL, WIDTH, SINKS, PREFIX)
        same = of_queries(qd, KEYS_FIRST) == of_keys(kd, KEYS_FIRST)
        seen = seen & same & of_keys(valid, KEYS_FIRST)
        s = tl.where(seen, s, float("-inf"))
    return s


@triton.jit
def _visible(
    qo, ko,
    CAUSAL: tl.constexpr, WIDTH: tl.constexpr, SINKS: tl.constexpr, PREFIX: tl.constexpr,
):  # fmt: skip
    distance = ko - qo
    seen = distance == distance
    # Orders may be negative, which is below a count of 0 too.
    if CAUSAL:
        past = distance <= 0
        if PREFIX > 0:
            past = past | (ko < PREFIX)
        seen = seen & past
    if WIDTH > 0:
        near = (distance < WIDTH) & (distance > -WIDTH)
        if SINKS > 0:
            near = near | (ko < SINKS)
        seen = seen & near
    return seen


@triton.jit
def key_span(
    m0, q_len, k_len,
    CAUSAL: tl.constexpr, WIDTH: tl.constexpr, SINKS: tl.constexpr, PREFIX: tl.constexpr,
    PLAIN: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Key tiles [lo, hi) that a tile of queries may see, and [0, sinks) before them."""
    # Triton before 3.4 returns tensors only.
    lo = m0 * 0
    sinks = m0 * 0
    end = k_len
    if PLAIN:
        first = m0 + (k_len - q_len)
        last = first + BM - 1
        if CAUSAL:
            end = tl.minimum(k_len, tl.maximum(last + 1, PREFIX))
        if WIDTH > 0:
            end = tl.minimum(end, last + WIDTH)
            lo = tl.maximum(first - WIDTH + 1, 0) // BN
            if SINKS > 0:
                sinks = tl.minimum(lo, tl.cdiv(tl.minimum(SINKS, end), BN))
    return lo, tl.cdiv(end, BN), sinks


@triton.jit
def query_span(
    n0, q_len, k_len,
    CAUSAL: tl.constexpr, WIDTH: tl.constexpr, SINKS: tl.constexpr, PREFIX: tl.constexpr,
    PLAIN: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Query tiles [lo, hi) that may see a tile of keys."""
    lo = n0 * 0
    end = q_len
    if PLAIN:
        first = n0 - (k_len - q_len)
        last = first + BN - 1
        if WIDTH > 0:
            sink = n0 < SINKS
            lo = tl.where(sink, 0, tl.maximum(first - WIDTH + 1, 0) // BM)
            end = tl.where(sink, q_len, tl.minimum(q_len, tl.maximum(last + WIDTH, 0)))
        if CAUSAL:
            lo = tl.maximum(lo, tl.where(n0 < PREFIX, 0, tl.maximum(first, 0) // BM))
    return lo, tl.cdiv(end, BM)
