"""What attention kernels do with a tile of scores: products, and a softmax as tiles come."""

import triton
import triton.language as tl


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
def add_tile(
    s, scale, added, v, mask, top, total, acc, RAW: tl.constexpr, PRECISION: tl.constexpr
):  # fmt: skip
    """A tile of scores s (m, n) and its values (n, e) added to a running softmax.

    top (m,) is the greatest score so far, total (m,) the sum of weights relative to it, and acc
    (m, e) that of weighted values; those three with the tile are returned. With RAW, scores are
    s * scale + added, whose scale is not negative: one instruction with the shift of the row.
    """
    highest = tl.max(s, 1)
    if RAW:
        highest = highest * scale + added
    higher = tl.maximum(top, highest)
    # A row that has seen nothing yet: -inf - -inf would be NaN.
    shift = tl.where(higher == float("-inf"), 0.0, higher)
    p = tl.exp2(s * scale - (shift - added)[:, None] if RAW else s - shift[:, None])
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
