"""The kernel that rotates q and k: some tokens of some heads for each program.

It computes in the dtype of cos and sin, float32 unless inputs are float64, whatever the dtype of q
and k. Lengths and strides compile nothing anew.
"""

import triton
import triton.language as tl

_LENGTHS = ("batch", "q_heads", "k_heads", "q_len", "k_len")
_STRIDES = tuple(f"{one}{axis}" for one in "qokpce" for axis in "bht")


@triton.jit(do_not_specialize=_LENGTHS + _STRIDES)
def rotate_kernel(
    q, out_q, cos, sin, qb, qh, qt, ob, oh, ot, cb, ch, ct,
    k, out_k, k_cos, k_sin, kb, kh, kt, pb, ph, pt, eb, eh, et,
    batch, q_heads, k_heads, q_len, k_len,
    DIM: tl.constexpr, START: tl.constexpr, PAIRS: tl.constexpr,
    INTERLEAVED: tl.constexpr, BACK: tl.constexpr, REST: tl.constexpr, BY_HEAD: tl.constexpr,
    BLOCK: tl.constexpr, PADDED_PAIRS: tl.constexpr, WIDTH: tl.constexpr, HEADS: tl.constexpr,
    UNIT: tl.constexpr, WAVE_UNIT: tl.constexpr,
):  # fmt: skip
    """Strides come as multiples of UNIT and WAVE_UNIT."""
    tiles = tl.cdiv(tl.maximum(q_len, k_len), BLOCK)
    tile = tl.program_id(0) % tiles
    rest = tl.program_id(0) // tiles
    row = (rest % batch).to(tl.int64)
    group = rest // batch
    q_groups = tl.cdiv(q_heads, HEADS)
    if group < q_groups:
        rotate_heads(
            q, out_q, cos, sin, qb * UNIT, qh * UNIT, qt * UNIT, ob * UNIT, oh * UNIT, ot * UNIT,
            cb * WAVE_UNIT, ch * WAVE_UNIT, ct * WAVE_UNIT,
            tile, row, group, q_heads, q_len, DIM, START, PAIRS,
            INTERLEAVED, BACK, REST, BY_HEAD, BLOCK, PADDED_PAIRS, WIDTH, HEADS,
        )  # fmt: skip
    else:
        rotate_heads(
            k, out_k, k_cos, k_sin,
            kb * UNIT, kh * UNIT, kt * UNIT, pb * UNIT, ph * UNIT, pt * UNIT,
            eb * WAVE_UNIT, eh * WAVE_UNIT, et * WAVE_UNIT,
            tile, row, group - q_groups, k_heads, k_len, DIM, START, PAIRS,
            INTERLEAVED, BACK, REST, BY_HEAD, BLOCK, PADDED_PAIRS, WIDTH, HEADS,
        )  # fmt: skip


@triton.jit
def rotate_heads(
    x, out, cos, sin, xb, xh, xt, ob, oh, ot, cb, ch, ct,
    tile, row, group, heads, length,
    DIM: tl.constexpr, START: tl.constexpr, PAIRS: tl.constexpr,
    INTERLEAVED: tl.constexpr, BACK: tl.constexpr, REST: tl.constexpr, BY_HEAD: tl.constexpr,
    BLOCK: tl.constexpr, PADDED_PAIRS: tl.constexpr, WIDTH: tl.constexpr, HEADS: tl.constexpr,
):  # fmt: skip
    # In 64 bits: a token's offset passes 2^31 in long sequences of many heads.
    token = (tile * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)[:, None]
    pair = tl.arange(0, PADDED_PAIRS)[None, :]
    here = (token < length) & (pair < PAIRS)
    first_head = group * HEADS
    cos += row * cb + token * ct + pair
    sin += row * cb + token * ct + pair
    c = tl.load(cos, mask=here, other=1.0)
    s = tl.load(sin, mask=here, other=0.0)
    for head in range(first_head, tl.minimum(first_head + HEADS, heads)):
        far = tl.full((), head, tl.int64)
        if BY_HEAD:
            c = tl.load(cos + far * ch, mask=here, other=1.0)
            s = tl.load(sin + far * ch, mask=here, other=0.0)
        signed = -s if BACK else s
        source = x + row * xb + far * xh + token * xt
        target = out + row * ob + far * oh + token * ot
        if INTERLEAVED:
            # One contiguous read and write; pairs are told apart in registers.
            both = tl.arange(0, 2 * PADDED_PAIRS)[None, :]
            inside = (token < length) & (both < 2 * PAIRS)
            y = tl.load(source + START + both, mask=inside, other=0.0).to(c.dtype)
            x1, x2 = tl.split(tl.reshape(y, (BLOCK, PADDED_PAIRS, 2)))
            y = tl.join(x1 * c - x2 * signed, x1 * signed + x2 * c)
            y = tl.reshape(y, (BLOCK, 2 * PADDED_PAIRS)).to(out.dtype.element_ty)
            tl.store(target + START + both, y, mask=inside)
        else:
            x1 = tl.load(source + START + pair, mask=here, other=0.0).to(c.dtype)
            x2 = tl.load(source + (START + PAIRS) + pair, mask=here, other=0.0).to(c.dtype)
            y1, y2 = x1 * c - x2 * signed, x1 * signed + x2 * c
            tl.store(target + START + pair, y1.to(out.dtype.element_ty), mask=here)
            tl.store(target + (START + PAIRS) + pair, y2.to(out.dtype.element_ty), mask=here)
        if REST:
            each = tl.arange(0, WIDTH)[None, :]
            rests = (each < START) | ((each >= START + 2 * PAIRS) & (each < DIM))
            rests = rests & (token < length)
            tl.store(target + each, tl.load(source + each, mask=rests), mask=rests)
