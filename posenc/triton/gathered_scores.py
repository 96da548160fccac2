"""What a score reads by distance out of a row of its query or its key, and what comes back there.

A *band* (b, h, t, n) has a row for each query or each key, and in it a number for each distance,
that of distance 0 at `zero`; beyond its ends it is flat. Tiles read and write it along its rows,
where neighbours are neighbours in memory, and no number but the two ends is of two pairs.
"""

import triton
import triton.language as tl

from posenc.triton.scores import gather, of_keys, of_queries


@triton.jit
def places(qp, kp, zero, OF_KEYS: tl.constexpr):
    """Where distances lie in rows of queries (m, n), or of keys (n, m), before they are clamped."""
    distance = kp[:, None] - qp[None, :] if OF_KEYS else kp[None, :] - qp[:, None]
    if distance.dtype == tl.int64:
        # What a band holds is counted in 32 bits.
        distance = tl.minimum(tl.maximum(distance, -(1 << 30)), 1 << 30).to(tl.int32)
    return distance + zero


@triton.jit
def near_of(band, size, place, inside, DIRECT: tl.constexpr):
    """What rows of a tile, which begin at `band`, hold at these places; any of rows not inside."""
    # The first row is there, and has numbers as good as any.
    r = tl.where(inside, tl.arange(0, place.shape[0]), 0)
    at = tl.minimum(tl.maximum(place, 0), size - 1)
    return gather(band, r[:, None] * size + at, DIRECT)


@triton.jit
def end_of(band, size, ahead, inside):
    """The first number of each row, or the last where `ahead`."""
    r = tl.arange(0, inside.shape[0])
    return tl.load(band + (r * size + tl.where(ahead, size - 1, 0)), mask=inside, other=0.0)


@triton.jit
def put_near(band, size, place, x, seen, factor):
    """Store x * factor where it is seen, but for the ends, which several pairs share.

    x and place are rows of the band by what they meet. Gives the sums of x over what belongs to the
    first number of each row, and to the last.
    """
    r = tl.arange(0, place.shape[0])
    inner = seen & (place > 0) & (place < size - 1)
    tl.store(band + (r[:, None] * size + place), (x * factor).to(band.dtype.element_ty), mask=inner)
    first = tl.sum(tl.where(seen & (place <= 0), x, 0.0), 1)
    return first, tl.sum(tl.where(seen & (place >= size - 1), x, 0.0), 1)


@triton.jit
def put_ends(band, size, first, last, inside, factor):
    r = tl.arange(0, inside.shape[0])
    tl.store(band + r * size, (first * factor).to(band.dtype.element_ty), mask=inside)
    tl.store(band + (r * size + size - 1), (last * factor).to(band.dtype.element_ty), mask=inside)


@triton.jit
def both_ends(band, size, inside, THERE: tl.constexpr, DTYPE: tl.constexpr):
    """The first number of each row and the last, of a band that is there."""
    first = 0.0
    last = 0.0
    if THERE:
        first = end_of(band, size, False, inside).to(DTYPE)
        last = end_of(band, size, True, inside).to(DTYPE)
    return first, last


@triton.jit
def of_query_band(
    band, size, zero, ends, queries, keys, inside, ahead,
    DIRECT: tl.constexpr, KEYS_FIRST: tl.constexpr, FAR: tl.constexpr,
):  # fmt: skip
    """What a band of queries, of which a tile's rows begin at `band`, adds to the tile.

    Queries by keys, or keys by queries where KEYS_FIRST. A far tile whose rows stay while others
    pass has their `ends` (`both_ends`).
    """
    if FAR:
        end = end_of(band, size, ahead, inside) if KEYS_FIRST else tl.where(ahead, ends[1], ends[0])
        x = of_queries(end, KEYS_FIRST)
    else:
        near = near_of(band, size, places(queries[0], keys[0], zero, False), inside, DIRECT)
        x = tl.trans(near) if KEYS_FIRST else near
    return x


@triton.jit
def of_key_band(
    band, size, zero, ends, queries, keys, inside, ahead,
    DIRECT: tl.constexpr, KEYS_FIRST: tl.constexpr, FAR: tl.constexpr,
):  # fmt: skip
    """The same of a band of keys."""
    if FAR:
        end = tl.where(ahead, ends[1], ends[0]) if KEYS_FIRST else end_of(band, size, ahead, inside)
        x = of_keys(end, KEYS_FIRST)
    else:
        near = near_of(band, size, places(queries[0], keys[0], zero, True), inside, DIRECT)
        x = near if KEYS_FIRST else tl.trans(near)
    return x


@triton.jit
def with_bands(
    s, g, g_size, g_zero, h, h_size, h_zero, ends, queries, keys, in_q, in_k, ahead,
    OF_QUERIES: tl.constexpr, OF_KEYS: tl.constexpr, DIRECT: tl.constexpr,
    KEYS_FIRST: tl.constexpr, FAR: tl.constexpr,
):  # fmt: skip
    """Products s with what bands g of queries and h of keys add; `ends` are of rows that stay."""
    if OF_QUERIES:
        s += of_query_band(
            g, g_size, g_zero, ends, queries, keys, in_q, ahead, DIRECT, KEYS_FIRST, FAR
        ).to(s.dtype)
    if OF_KEYS:
        s += of_key_band(
            h, h_size, h_zero, ends, queries, keys, in_k, ahead, DIRECT, KEYS_FIRST, FAR
        ).to(s.dtype)
    return s
