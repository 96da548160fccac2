"""q and k rotated by one kernel launch: each element is read once and written once.

`posenc.rotation.rotate_pairs` is the specification. The kernel computes in the dtype of cos and
sin, float32 unless inputs are float64, whatever the dtype of q and k. Rotating back, which is the
gradient, is the same kernel with -sin.
"""

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from posenc.errors import ShapeError
from posenc.rotation import check_rotation
from posenc.terms import Layout
from posenc.triton import on_device

# Elements of one head that a program rotates at once.
_TILE = 4096
# Heads that share a program's cos and sin, which pays once programs are enough for all cores.
_HEADS = 8
_MANY = 512

Tensors = Sequence[Tensor]


def rotated(
    x: Tensors, cos: Tensors, sin: Tensors, layout: Layout, start: int = 0
) -> Sequence[Tensor]:
    """Each x (b, h, t, d), one or two of them, with its pairs rotated, in its own dtype.

    cos, sin  of each x, (1|b, 1|h, t, r), of any strides; they get no gradient

    Any strides are read and written without copies; outputs have the strides of their inputs.

    Raises ShapeError where angles do not fit.
    """
    for one, c, s in zip(x, cos, sin, strict=True):
        check_rotation(one, c, start)
        if c.shape[2] != one.shape[2] or s.shape != c.shape:
            raise ShapeError(
                f"rotation has angles of shape {tuple(c.shape)}, (1|b, 1|h, t, r), "
                f"but the tensor has shape {tuple(one.shape)}"
            )
    interleaved = layout == "interleaved"
    if torch.is_grad_enabled() and any(one.requires_grad for one in x):
        return _Rotate.apply(cos, sin, interleaved, start, False, *x)
    return _launch(x, cos, sin, interleaved, start, False)


class _Rotate(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, cos: Tensors, sin: Tensors, interleaved: bool, start: int, back: bool, *x: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.undone = cos, sin, interleaved, start, not back
        return tuple(_launch(x, cos, sin, interleaved, start, back))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, None, None, None, *_Rotate.apply(*ctx.undone, *grads)


def _launch(
    x: Tensors, cos: Tensors, sin: Tensors, interleaved: bool, start: int, back: bool
) -> list[Tensor]:
    out = [torch.empty_like(one) for one in x]
    batch, q_heads, q_len, dim = x[0].shape
    # A single tensor also stands in for keys, of which there are no heads then.
    _, k_heads, k_len, _ = x[1].shape if len(x) > 1 else (0, 0, 0, 0)
    longest, pairs = max(q_len, k_len), cos[0].shape[-1]
    if batch * longest * dim == 0:
        return out
    rest = 2 * pairs < dim
    width, padded_pairs = triton.next_power_of_2(dim), triton.next_power_of_2(pairs)
    elements = width if rest else 2 * padded_pairs
    block = min(triton.next_power_of_2(longest), max(1, _TILE // elements))
    tiles = triton.cdiv(longest, block)
    heads = _HEADS if batch * tiles >= _MANY else 1
    q_groups = triton.cdiv(q_heads, heads)
    grid = (tiles, batch, q_groups + triton.cdiv(k_heads, heads))
    tensors = [
        (one, to, c, s, *one.stride(), *to.stride(), *_broadcast(c), *_broadcast(s))
        for one, to, c, s in zip(x, out, cos, sin, strict=True)
    ]
    with on_device(x[0]):
        _rotate_kernel[grid](
            *tensors[0], *tensors[-1], q_heads, k_heads, q_groups, q_len, k_len,
            DIM=dim, START=start, PAIRS=pairs, INTERLEAVED=interleaved, BACK=back, REST=rest,
            BY_HEAD=max(c.shape[1] for c in cos) > 1,
            BLOCK=block, PADDED_PAIRS=padded_pairs, WIDTH=width, HEADS=heads,
            num_warps=4, enable_fp_fusion=True,
        )  # fmt: skip
    return out


def _broadcast(wave: Tensor) -> tuple[int, ...]:
    """Strides of cos or sin, zero where one row of it serves every batch entry or head."""
    return tuple(
        0 if axis < 2 and wave.shape[axis] == 1 else wave.stride(axis) for axis in range(4)
    )


@triton.jit
def _rotate_kernel(
    q, out_q, cos, sin, qb, qh, qt, qd, ob, oh, ot, od, cb, ch, ct, cr, sb, sh, st, sr,
    k, out_k, k_cos, k_sin, kb, kh, kt, kd, pb, ph, pt, pd, eb, eh, et, er, fb, fh, ft, fr,
    q_heads, k_heads, q_groups, q_len, k_len,
    DIM: tl.constexpr, START: tl.constexpr, PAIRS: tl.constexpr,
    INTERLEAVED: tl.constexpr, BACK: tl.constexpr, REST: tl.constexpr, BY_HEAD: tl.constexpr,
    BLOCK: tl.constexpr, PADDED_PAIRS: tl.constexpr, WIDTH: tl.constexpr, HEADS: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(2)
    if group < q_groups:
        _rotate_heads(
            q, out_q, cos, sin, qb, qh, qt, qd, ob, oh, ot, od, cb, ch, ct, cr, sb, sh, st, sr,
            group, q_heads, q_len, DIM, START, PAIRS,
            INTERLEAVED, BACK, REST, BY_HEAD, BLOCK, PADDED_PAIRS, WIDTH, HEADS,
        )  # fmt: skip
    else:
        _rotate_heads(
            k, out_k, k_cos, k_sin, kb, kh, kt, kd, pb, ph, pt, pd, eb, eh, et, er, fb, fh, ft, fr,
            group - q_groups, k_heads, k_len, DIM, START, PAIRS,
            INTERLEAVED, BACK, REST, BY_HEAD, BLOCK, PADDED_PAIRS, WIDTH, HEADS,
        )  # fmt: skip


@triton.jit
def _rotate_heads(
    x, out, cos, sin, xb, xh, xt, xd, ob, oh, ot, od, cb, ch, ct, cr, sb, sh, st, sr,
    group, heads, length,
    DIM: tl.constexpr, START: tl.constexpr, PAIRS: tl.constexpr,
    INTERLEAVED: tl.constexpr, BACK: tl.constexpr, REST: tl.constexpr, BY_HEAD: tl.constexpr,
    BLOCK: tl.constexpr, PADDED_PAIRS: tl.constexpr, WIDTH: tl.constexpr, HEADS: tl.constexpr,
):  # fmt: skip
    # In 64 bits: a token's offset passes 2^31 in long sequences of many heads.
    row = tl.program_id(1).to(tl.int64)
    token = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)[:, None]
    pair = tl.arange(0, PADDED_PAIRS)[None, :]
    here = (token < length) & (pair < PAIRS)
    first_head = group * HEADS
    cos += row * cb + token * ct + pair * cr
    sin += row * sb + token * st + pair * sr
    c = tl.load(cos, mask=here, other=1.0)
    s = tl.load(sin, mask=here, other=0.0)
    for head in range(first_head, tl.minimum(first_head + HEADS, heads)):
        far = tl.full((), head, tl.int64)
        if BY_HEAD:
            c = tl.load(cos + far * ch, mask=here, other=1.0)
            s = tl.load(sin + far * sh, mask=here, other=0.0)
        signed = -s if BACK else s
        source = x + row * xb + far * xh + token * xt
        target = out + row * ob + far * oh + token * ot
        if INTERLEAVED:
            # One contiguous read and write; pairs are told apart in registers.
            both = tl.arange(0, 2 * PADDED_PAIRS)[None, :]
            inside = (token < length) & (both < 2 * PAIRS)
            y = tl.load(source + (START + both) * xd, mask=inside, other=0.0).to(c.dtype)
            x1, x2 = tl.split(tl.reshape(y, (BLOCK, PADDED_PAIRS, 2)))
            y = tl.join(x1 * c - x2 * signed, x1 * signed + x2 * c)
            y = tl.reshape(y, (BLOCK, 2 * PADDED_PAIRS)).to(out.dtype.element_ty)
            tl.store(target + (START + both) * od, y, mask=inside)
        else:
            x1 = tl.load(source + (START + pair) * xd, mask=here, other=0.0).to(c.dtype)
            x2 = tl.load(source + (START + PAIRS + pair) * xd, mask=here, other=0.0).to(c.dtype)
            y1, y2 = x1 * c - x2 * signed, x1 * signed + x2 * c
            tl.store(target + (START + pair) * od, y1.to(out.dtype.element_ty), mask=here)
            tl.store(target + (START + PAIRS + pair) * od, y2.to(out.dtype.element_ty), mask=here)
        if REST:
            each = tl.arange(0, WIDTH)[None, :]
            rests = (each < START) | ((each >= START + 2 * PAIRS) & (each < DIM))
            rests = rests & (token < length)
            tl.store(target + each * od, tl.load(source + each * xd, mask=rests), mask=rests)
