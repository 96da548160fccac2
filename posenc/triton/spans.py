"""Which tiles meet, in three kinds, so that most of them are added up without a question.

In a *far* tile one number of a table and the slope of one side are added to all scores. In a *near*
one each score has its own. In a *masked* one, besides, some pairs are hidden, or lie beyond the
end. The tiles that one program meets are, in PLAIN positions,

    [lo, full_lo) masked, [full_lo, near) far, [near, far) near, [far, full_hi) far,
    [full_hi, hi) masked, and [0, sinks) masked before them all

and elsewhere entries of a list that is made beforehand (`posenc.triton.tile_lists`): far ones up to
the first of three ends, near ones up to the second, masked ones up to the third. An entry is twice
the tile, and one more in a far tile of the future.
"""

import triton
import triton.language as tl


@triton.jit
def key_tiles(
    m0, q_len, k_len, behind, ahead,
    CAUSAL: tl.constexpr, WIDTH: tl.constexpr, SINKS: tl.constexpr, PREFIX: tl.constexpr,
    NEAR: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Key tiles that the queries from m0 on meet: sinks, lo, full_lo, near, far, full_hi, hi.

    Near are distances above -behind and below ahead.
    """
    # A key at `first` has distance 0 to the first query, one at `last` to the last.
    first = m0 + (k_len - q_len)
    last = first + BM - 1
    sinks = m0 * 0
    lo = m0 * 0
    full_lo = m0 * 0
    end = k_len
    full_end = k_len
    if CAUSAL:
        end = tl.minimum(end, tl.maximum(last + 1, PREFIX))
        full_end = tl.minimum(full_end, tl.maximum(first + 1, PREFIX))
    if WIDTH > 0:
        end = tl.minimum(end, last + WIDTH)
        full_end = tl.minimum(full_end, first + WIDTH)
        lo = tl.maximum(first - WIDTH + 1, 0) // BN
        full_lo = tl.cdiv(tl.maximum(last - WIDTH + 1, 0), BN)
        if SINKS > 0:
            sinks = tl.minimum(lo, tl.cdiv(tl.minimum(SINKS, end), BN))
    hi = tl.maximum(tl.cdiv(end, BN), lo)
    full_lo = tl.minimum(full_lo, hi)
    full_hi = tl.maximum(tl.maximum(full_end, 0) // BN, full_lo)
    near = full_hi
    far = full_hi
    if NEAR:
        near = tl.maximum(first - behind + 1, 0) // BN
        near = tl.minimum(tl.maximum(near, full_lo), full_hi)
        far = tl.cdiv(tl.maximum(last + ahead, 0), BN)
        far = tl.minimum(tl.maximum(far, near), full_hi)
    return sinks, lo, full_lo, near, far, full_hi, hi


@triton.jit
def query_tiles(
    n0, q_len, k_len, behind, ahead,
    CAUSAL: tl.constexpr, WIDTH: tl.constexpr, SINKS: tl.constexpr, PREFIX: tl.constexpr,
    NEAR: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Query tiles that meet the keys from n0 on, the same seven; there are no sinks before."""
    # A query at `first` has distance 0 to the first key, one at `last` to the last.
    first = n0 - (k_len - q_len)
    last = first + BN - 1
    lo = n0 * 0
    full_lo = n0 * 0
    end = q_len
    full_end = q_len
    if WIDTH > 0:
        some_sink = n0 < SINKS
        all_sinks = n0 + BN <= SINKS
        lo = tl.where(some_sink, 0, tl.maximum(first - WIDTH + 1, 0) // BM)
        end = tl.where(some_sink, q_len, tl.minimum(q_len, tl.maximum(last + WIDTH, 0)))
        full_lo = tl.where(all_sinks, 0, tl.cdiv(tl.maximum(last - WIDTH + 1, 0), BM))
        full_end = tl.where(all_sinks, q_len, tl.minimum(q_len, tl.maximum(first + WIDTH, 0)))
    if CAUSAL:
        some = tl.where(n0 < PREFIX, 0, tl.maximum(first, 0) // BM)
        every = tl.where(n0 + BN <= PREFIX, 0, tl.cdiv(tl.maximum(last, 0), BM))
        lo = tl.maximum(lo, some)
        full_lo = tl.maximum(full_lo, every)
    # Keys beyond the last one are hidden, as are queries.
    full_end = tl.where(n0 + BN <= k_len, full_end, 0)
    hi = tl.maximum(tl.cdiv(end, BM), lo)
    full_lo = tl.minimum(tl.maximum(full_lo, lo), hi)
    full_hi = tl.maximum(full_end // BM, full_lo)
    near = full_lo
    far = full_lo
    if NEAR:
        far = tl.cdiv(tl.maximum(last + behind, 0), BM)
        far = tl.minimum(tl.maximum(far, full_lo), full_hi)
        near = tl.maximum(first - ahead + 1, 0) // BM
        near = tl.minimum(tl.maximum(near, full_lo), far)
    sinks = n0 * 0
    return sinks, lo, full_lo, near, far, full_hi, hi


@triton.jit
def ends_of(span, ends, PLAIN: tl.constexpr):
    """How many tiles are far, how many far or near, and how many there are in all."""
    if PLAIN:
        inside = span[5] - span[2]
        of_far = inside - (span[4] - span[3])
        total = span[0] + span[6] - span[1]
    else:
        of_far = tl.load(ends)
        inside = tl.load(ends + 1)
        total = tl.load(ends + 2)
    return of_far, inside, total


@triton.jit
def steps_of(counts, KIND: tl.constexpr):
    """The first step and the end of tiles of a kind, 0 far, 1 near, 2 masked; counts of `ends_of`.

    A loop of each kind has no branch inside.
    """
    begin = counts[0] * 0 if KIND == 0 else counts[KIND - 1]
    return begin, counts[KIND]


@triton.jit
def tile_at(
    step, span, entries, FAR: tl.constexpr, MASKED: tl.constexpr,
    FUTURE_FIRST: tl.constexpr, PLAIN: tl.constexpr,
):  # fmt: skip
    """The tile met at a step, and whether it is of the future, which is asked of far ones only."""
    if PLAIN:
        sinks = span[0]
        full_lo = span[2]
        inside = span[5] - full_lo
        width = span[4] - span[3]
        ahead = False
        if FAR:
            before = step < span[3] - full_lo
            tile = tl.where(before, full_lo + step, full_lo + step + width)
            ahead = before == FUTURE_FIRST
        elif MASKED:
            left = step - inside
            beyond = left - sinks + span[1]
            beyond = tl.where(beyond < full_lo, beyond, beyond + inside)
            tile = tl.where(left < sinks, left, beyond)
        else:
            tile = span[3] + step - (inside - width)
    else:
        entry = tl.load(entries + step)
        tile = entry // 2
        ahead = entry % 2 != 0
    return tile, ahead
