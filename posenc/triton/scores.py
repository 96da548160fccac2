"""What one tile of scores is, the same in every attention kernel.

Scores are in units of log 2, so that exp2 takes them as they come. What all scores of a row share
leaves its softmax as it is: slopes count from near the row, in place of from it, and the rest comes
back in the log of the sum (`row_shift`).
"""

import triton
import triton.language as tl

# Slopes that depend on the key alone count from the start of this many queries, in every kernel.
REBASE = tl.constexpr(128)
LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def of_queries(x, KEYS_FIRST: tl.constexpr):
    """A vector over queries, as tiles of (queries, keys) or of (keys, queries) meet it."""
    return x[None, :] if KEYS_FIRST else x[:, None]


@triton.jit
def of_keys(x, KEYS_FIRST: tl.constexpr):
    """The same of a vector over keys."""
    return x[:, None] if KEYS_FIRST else x[None, :]


@triton.jit
def query_side(i, row, position, order, document, q_len, k_len, PLAIN: tl.constexpr):
    """Position, order and document of queries i."""
    if PLAIN:
        x = i + (k_len - q_len)
        side = x, x, x
    else:
        inside = i < q_len
        at = row * q_len + i
        x = tl.load(position + at, mask=inside, other=0)
        y = tl.load(order + at, mask=inside, other=0)
        side = x, y, tl.load(document + at, mask=inside, other=0)
    return side


@triton.jit
def key_side(j, row, position, order, document, valid, k_len, PLAIN: tl.constexpr):
    """Position, order and document of keys j, and which of them there are."""
    inside = j < k_len
    if PLAIN:
        side = j, j, j, inside
    else:
        at = row * k_len + j
        x = tl.load(position + at, mask=inside, other=0)
        y = tl.load(order + at, mask=inside, other=0)
        z = tl.load(document + at, mask=inside, other=0)
        side = x, y, z, tl.load(valid + at, mask=inside, other=0) != 0
    return side


@triton.jit
def ends_of_table(table, size, TABLE: tl.constexpr):
    """What a table adds far in the past, and far in the future."""
    first = 0.0
    last = 0.0
    if TABLE:
        first = tl.load(table)
        last = tl.load(table + size - 1)
    return first, last


@triton.jit
def slopes_of(past, future, head, SLOPE: tl.constexpr):
    """Those of one head, by which scores rise with the distance in the past, and in the future."""
    rising = 0.0
    falling = 0.0
    if SLOPE:
        rising = tl.load(past + head)
        falling = -tl.load(future + head)
    return rising, falling


@triton.jit
def offsets_of(offset, i, end, OFFSETS: tl.constexpr, DTYPE: tl.constexpr):
    """Those of tokens i, each as a number and what is lost of it.

    They may be float64 and large, and cancel: their differences matter.
    """
    high = 0.0
    low = 0.0
    if OFFSETS:
        own = tl.load(offset + i, mask=i < end, other=0.0)
        own = own * tl.full((), LOG2_E, own.dtype)
        high = own.to(DTYPE)
        # Of infinity nothing is lost.
        finite = tl.abs(high) < float("inf")
        low = tl.where(finite, own, 0.0) - tl.where(finite, high, 0.0).to(own.dtype)
        low = low.to(DTYPE)
    return high, low


@triton.jit
def row_shift(position, base, slope, KEY_ONLY: tl.constexpr, DTYPE: tl.constexpr):
    """What is to be added to all scores of each row, which the tiles leave out."""
    shift = tl.zeros(position.shape, DTYPE)
    if KEY_ONLY:
        shift -= slope * (position - base).to(DTYPE)
    return shift


@triton.jit
def tile_scores(
    s, scale, j, start, queries, keys, base, table, size, zero, ends, slopes, ahead, k_offset,
    offsets, k_len,
    CAUSAL: tl.constexpr, WIDTH: tl.constexpr, SINKS: tl.constexpr, PREFIX: tl.constexpr,
    PLAIN: tl.constexpr, KEY_ONLY: tl.constexpr, TABLE: tl.constexpr, SLOPE: tl.constexpr,
    OFFSETS: tl.constexpr, DIRECT: tl.constexpr, KEYS_FIRST: tl.constexpr, FAR: tl.constexpr,
    MASKED: tl.constexpr,
):  # fmt: skip
    """Scaled products s with biases, and -inf where not visible.

    s               queries by keys, or keys by queries where KEYS_FIRST
    start           the first of the keys j
    queries, keys   what `query_side` and `key_side` tell
    base            a position near the queries, from which slopes count
    table           of this head, and `ends` of it
    ahead           whether a far tile lies in the future
    k_offset        of this head, and `offsets` of the queries
    """
    s = s * scale
    qp = queries[0]
    kp = keys[0]
    if SLOPE:
        key = of_keys(_from_base(kp, start, base, s.dtype, PLAIN), KEYS_FIRST)
        if KEY_ONLY:
            s += slopes[0] * key
        else:
            query = of_queries((qp - base).to(s.dtype), KEYS_FIRST)
            if FAR:
                slope = tl.where(ahead, slopes[1], slopes[0])
                s += slope * key
                s -= slope * query
            else:
                distance = key - query
                s += tl.where(distance <= 0, slopes[0], slopes[1]) * distance
    if TABLE:
        if FAR:
            s += tl.where(ahead, ends[1], ends[0])
        else:
            index = of_keys(kp, KEYS_FIRST) - of_queries(qp, KEYS_FIRST) + zero
            s += gather(table, tl.minimum(tl.maximum(index, 0), size - 1), DIRECT)
    if OFFSETS:
        high, low = offsets_of(k_offset, j, k_len, True, s.dtype)
        # The large ones meet before anything else is added to them.
        large = of_keys(high, KEYS_FIRST) + of_queries(offsets[0], KEYS_FIRST)
        s += large + (of_keys(low, KEYS_FIRST) + of_queries(offsets[1], KEYS_FIRST))
    if MASKED:
        order = of_queries(queries[1], KEYS_FIRST)
        seen = _visible(order, of_keys(keys[1], KEYS_FIRST), CAUSAL, WIDTH, SINKS, PREFIX)
        seen = seen & of_keys(keys[3], KEYS_FIRST)
        if not PLAIN:
            seen = seen & (of_queries(queries[2], KEYS_FIRST) == of_keys(keys[2], KEYS_FIRST))
        s = tl.where(seen, s, float("-inf"))
    return s


@triton.jit
def _from_base(position, start, base, DTYPE: tl.constexpr, PLAIN: tl.constexpr):
    """How far keys lie from base: one whole number of a tile is made a float, not all of them."""
    if PLAIN:
        distance = tl.arange(0, position.shape[0]).to(DTYPE) + (start - base).to(DTYPE)
    else:
        distance = (position - base).to(DTYPE)
    return distance


@triton.jit
def gather(numbers, index, DIRECT: tl.constexpr):
    """numbers[index], of 16 or 32 bits, each thread reading the scores that it holds.

    A load would read in an order of its own, and hand its values over through shared memory.
    """
    if DIRECT and numbers.dtype.element_ty == tl.float32:
        values = tl.inline_asm_elementwise(
            "{ .reg .b64 at; mad.wide.s32 at, $2, 4, $1; ld.global.nc.f32 $0, [at]; }",
            "=f,l,r", [numbers.to(tl.int64), index], dtype=tl.float32, is_pure=True, pack=1,
        )  # fmt: skip
    elif DIRECT:
        values = tl.inline_asm_elementwise(
            "{ .reg .b64 at; mad.wide.s32 at, $2, 2, $1; ld.global.nc.b16 $0, [at]; }",
            "=h,l,r", [numbers.to(tl.int64), index], dtype=numbers.dtype.element_ty, is_pure=True,
            pack=1,
        )  # fmt: skip
    else:
        values = tl.load(numbers + index)
    return values


@triton.jit
def _visible(
    qo, ko,
    CAUSAL: tl.constexpr, WIDTH: tl.constexpr, SINKS: tl.constexpr, PREFIX: tl.constexpr,
):  # fmt: skip
    """Which pairs the rules leave, of orders of queries and keys that meet along two axes."""
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
