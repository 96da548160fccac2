"""Turning q and k by one kernel launch: each element is read once and written once.

`posenc.rotation.rotate_pairs` is the specification. The kernel computes in the dtype of cos and
sin, float32 unless inputs are float64, whatever the dtype of q and k. Turning back, which is the
gradient, is the same kernel with -sin.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from posenc.errors import ShapeError, UnsupportedError
from posenc.rotation import CosSin, check_rotation
from posenc.terms import Layout
from posenc.triton.launching import on_device

# Elements of one head that a program turns at once.
_TILE = 4096
# Heads that share a program's tables, which pays once there are programs enough for all cores.
_HEADS = 8
_MANY = 512


def turn(
    q: Tensor,
    k: Tensor | None,
    q_turn: CosSin,
    k_turn: CosSin | None,
    layout: Layout,
    start: int = 0,
    inplace: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """q (b, h, tq, d) and k (b, g, tk, d) with their pairs turned, in their own dtypes.

    q_turn, k_turn  cos and sin, each (1|b, 1|h, t, r), of any strides
    inplace         write into q and k; neither may need a gradient or overlap with itself

    A k that is None, or whose turn is None, is returned as it is. Any strides are read and
    written without copies; outputs have the strides of their inputs. No gradient goes to cos and
    sin: `differentiable` says where that matters.
    """
    turned_k = None if k_turn is None else k
    cos, sin = q_turn
    _check_fits(q, q_turn, start)
    if turned_k is not None and k_turn is not None:
        _check_fits(turned_k, k_turn, start)
    k_cos, k_sin = (None, None) if k_turn is None or turned_k is None else k_turn
    settings = (layout == "interleaved", start)
    if inplace:
        for name, x in (("q", q), ("k", turned_k)):
            if x is not None:
                _check_writable(name, x)
        _launch(q, turned_k, cos, sin, k_cos, k_sin, *settings, False, (q, turned_k))
        torch.autograd.graph.increment_version([q] if turned_k is None else [q, turned_k])
        return q, k
    if torch.compiler.is_compiling():
        made = torch.ops.posenc.triton_turn(q, turned_k, cos, sin, k_cos, k_sin, *settings, False)
        return made[0], k if turned_k is None else made[1]
    if torch.is_grad_enabled() and (
        q.requires_grad or (turned_k is not None and turned_k.requires_grad)
    ):
        made = _Turn.apply(q, turned_k, cos, sin, k_cos, k_sin, *settings)
    else:
        made = _turned(q, turned_k, cos, sin, k_cos, k_sin, *settings, False)
    return made[0], k if turned_k is None else made[1]


def differentiable(q_turn: CosSin, k_turn: CosSin | None) -> bool:
    """Whether angles need a gradient (learned frequencies), which this kernel does not give."""
    return any(wave.requires_grad for pair in (q_turn, k_turn or ()) for wave in pair)


def _check_fits(x: Tensor, turn: CosSin, start: int) -> None:
    check_rotation(x, turn[0], start)
    if turn[0].shape[2] != x.shape[2] or turn[1].shape != turn[0].shape:
        raise ShapeError(
            f"rotation has angles of shape {tuple(turn[0].shape)}, (1|b, 1|h, t, r), "
            f"but the tensor has shape {tuple(x.shape)}"
        )


def _check_writable(name: str, x: Tensor) -> None:
    if x.requires_grad:
        raise UnsupportedError(
            f"rotate(inplace=True): {name} needs a gradient, which would be computed from "
            "overwritten values; use inplace=False"
        )
    if any(stride == 0 and size > 1 for size, stride in zip(x.shape, x.stride(), strict=True)):
        raise UnsupportedError(
            f"rotate(inplace=True): {name} of shape {tuple(x.shape)} and strides {x.stride()} "
            "repeats its memory, so that it would be turned more than once; use inplace=False"
        )


class _Turn(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor | None,
        cos: Tensor,
        sin: Tensor,
        k_cos: Tensor | None,
        k_sin: Tensor | None,
        interleaved: bool,
        start: int,
    ) -> tuple[Tensor, ...]:
        ctx.save_for_backward(cos, sin, k_cos, k_sin)
        ctx.settings = interleaved, start
        made = _turned(q, k, cos, sin, k_cos, k_sin, interleaved, start, False)
        return tuple(made)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        made = _turned_back(ctx, list(grads), _turned)
        return (*made, None, None, None, None, None, None)


def _turned_back(ctx: Any, grads: list[Tensor], run: Any) -> tuple[Tensor, Tensor | None]:
    cos, sin, k_cos, k_sin = ctx.saved_tensors
    k = None if k_cos is None else grads[1]
    made = run(grads[0], k, cos, sin, k_cos, k_sin, *ctx.settings, True)
    return made[0], None if k is None else made[1]


def _turned(
    q: Tensor,
    k: Tensor | None,
    cos: Tensor,
    sin: Tensor,
    k_cos: Tensor | None,
    k_sin: Tensor | None,
    interleaved: bool,
    start: int,
    back: bool,
) -> list[Tensor]:
    out_q, out_k = torch.empty_like(q), None if k is None else torch.empty_like(k)
    _launch(q, k, cos, sin, k_cos, k_sin, interleaved, start, back, (out_q, out_k))
    return [out_q] if out_k is None else [out_q, out_k]


def _launch(
    q: Tensor,
    k: Tensor | None,
    cos: Tensor,
    sin: Tensor,
    k_cos: Tensor | None,
    k_sin: Tensor | None,
    interleaved: bool,
    start: int,
    back: bool,
    outs: tuple[Tensor, Tensor | None],
) -> None:
    batch, q_heads, q_len, dim = q.shape
    pairs = cos.shape[-1]
    out_q, out_k = outs
    # Without keys to turn the launch has no programs for them, and these stand in unread.
    if k is None or k_cos is None or k_sin is None or out_k is None:
        k, k_cos, k_sin, out_k, k_heads, k_len = q, cos, sin, out_q, 0, 0
    else:
        k_heads, k_len = k.shape[1], k.shape[2]
    longest = max(q_len, k_len)
    if batch * longest * dim == 0:
        return
    rest = 2 * pairs < dim and out_q is not q
    width, pairs_wide = triton.next_power_of_2(dim), triton.next_power_of_2(pairs)
    elements = width if rest else 2 * pairs_wide
    block = min(triton.next_power_of_2(longest), max(1, _TILE // elements))
    tiles = triton.cdiv(longest, block)
    heads = _HEADS if batch * tiles >= _MANY else 1
    q_groups = triton.cdiv(q_heads, heads)
    grid = (tiles, batch, q_groups + triton.cdiv(k_heads, heads))
    with on_device(q):
        _turn_kernel[grid](
            q, out_q, cos, sin, *q.stride(), *out_q.stride(), *_table(cos), *_table(sin),
            k, out_k, k_cos, k_sin, *k.stride(), *out_k.stride(), *_table(k_cos), *_table(k_sin),
            q_heads, k_heads, q_groups, q_len, k_len,
            DIM=dim, START=start, TURNED=pairs, INTERLEAVED=interleaved, BACK=back, REST=rest,
            BY_HEAD=max(cos.shape[1], k_cos.shape[1]) > 1,
            BLOCK=block, PAIRS=pairs_wide, WIDTH=width, HEADS=heads,
            num_warps=4, enable_fp_fusion=True,
        )  # fmt: skip


def _table(wave: Tensor) -> tuple[int, ...]:
    """Strides of cos or sin, zero where one row of the table serves every batch entry or head."""
    return tuple(
        0 if axis < 2 and wave.shape[axis] == 1 else wave.stride(axis) for axis in range(4)
    )


@triton.jit
def _turn_kernel(
    q, out_q, cos, sin, qb, qh, qt, qd, ob, oh, ot, od, cb, ch, ct, cr, sb, sh, st, sr,
    k, out_k, k_cos, k_sin, kb, kh, kt, kd, pb, ph, pt, pd, eb, eh, et, er, fb, fh, ft, fr,
    q_heads, k_heads, q_groups, q_len, k_len,
    DIM: tl.constexpr, START: tl.constexpr, TURNED: tl.constexpr,
    INTERLEAVED: tl.constexpr, BACK: tl.constexpr, REST: tl.constexpr, BY_HEAD: tl.constexpr,
    BLOCK: tl.constexpr, PAIRS: tl.constexpr, WIDTH: tl.constexpr, HEADS: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(2)
    if group < q_groups:
        _turn_heads(
            q, out_q, cos, sin, qb, qh, qt, qd, ob, oh, ot, od, cb, ch, ct, cr, sb, sh, st, sr,
            group, q_heads, q_len, DIM, START, TURNED,
            INTERLEAVED, BACK, REST, BY_HEAD, BLOCK, PAIRS, WIDTH, HEADS,
        )  # fmt: skip
    else:
        _turn_heads(
            k, out_k, k_cos, k_sin, kb, kh, kt, kd, pb, ph, pt, pd, eb, eh, et, er, fb, fh, ft, fr,
            group - q_groups, k_heads, k_len, DIM, START, TURNED,
            INTERLEAVED, BACK, REST, BY_HEAD, BLOCK, PAIRS, WIDTH, HEADS,
        )  # fmt: skip


@triton.jit
def _turn_heads(
    x, out, cos, sin, xb, xh, xt, xd, ob, oh, ot, od, cb, ch, ct, cr, sb, sh, st, sr,
    group, heads, length,
    DIM: tl.constexpr, START: tl.constexpr, TURNED: tl.constexpr,
    INTERLEAVED: tl.constexpr, BACK: tl.constexpr, REST: tl.constexpr, BY_HEAD: tl.constexpr,
    BLOCK: tl.constexpr, PAIRS: tl.constexpr, WIDTH: tl.constexpr, HEADS: tl.constexpr,
):  # fmt: skip
    # In 64 bits: a token's offset passes 2^31 in long sequences of many heads.
    row = tl.program_id(1).to(tl.int64)
    token = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)[:, None]
    pair = tl.arange(0, PAIRS)[None, :]
    here = (token < length) & (pair < TURNED)
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
        turn = -s if BACK else s
        source = x + row * xb + far * xh + token * xt
        target = out + row * ob + far * oh + token * ot
        if INTERLEAVED:
            # One contiguous read and write; pairs are told apart in registers.
            at = tl.arange(0, 2 * PAIRS)[None, :]
            inside = (token < length) & (at < 2 * TURNED)
            both = tl.load(source + (START + at) * xd, mask=inside, other=0.0)
            x1, x2 = tl.split(tl.reshape(both.to(c.dtype), (BLOCK, PAIRS, 2)))
            y = tl.reshape(tl.join(x1 * c - x2 * turn, x1 * turn + x2 * c), (BLOCK, 2 * PAIRS))
            tl.store(target + (START + at) * od, y.to(out.dtype.element_ty), mask=inside)
        else:
            x1 = tl.load(source + (START + pair) * xd, mask=here, other=0.0).to(c.dtype)
            x2 = tl.load(source + (START + TURNED + pair) * xd, mask=here, other=0.0).to(c.dtype)
            y1, y2 = x1 * c - x2 * turn, x1 * turn + x2 * c
            tl.store(target + (START + pair) * od, y1.to(out.dtype.element_ty), mask=here)
            tl.store(target + (START + TURNED + pair) * od, y2.to(out.dtype.element_ty), mask=here)
        if REST:
            at = tl.arange(0, WIDTH)[None, :]
            passed = (token < length) & (at < DIM) & ((at < START) | (at >= START + 2 * TURNED))
            tl.store(target + at * od, tl.load(source + at * xd, mask=passed), mask=passed)


_library = torch.library.Library("posenc", "FRAGMENT")
_library.define(
    "triton_turn(Tensor q, Tensor? k, Tensor cos, Tensor sin, Tensor? k_cos, Tensor? k_sin, "
    "bool interleaved, int start, bool back) -> Tensor[]"
)
for _key in ("CPU", "CUDA"):
    _library.impl("triton_turn", _turned, _key)


@torch.library.register_fake("posenc::triton_turn", lib=_library)
def _fake(q: Tensor, k: Tensor | None, *_: Any) -> list[Tensor]:
    return [torch.empty_like(x) for x in (q, k) if x is not None]


def _setup(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    _, _, cos, sin, k_cos, k_sin, interleaved, start, back = inputs
    ctx.save_for_backward(cos, sin, k_cos, k_sin)
    ctx.settings, ctx.back = (interleaved, start), back


def _op_backward(ctx: Any, grads: list[Tensor]) -> tuple[Tensor | None, ...]:
    cos, sin, k_cos, k_sin = ctx.saved_tensors
    k = None if k_cos is None else grads[1]
    made = torch.ops.posenc.triton_turn(
        grads[0], k, cos, sin, k_cos, k_sin, *ctx.settings, not ctx.back
    )
    return (made[0], None if k is None else made[1], *[None] * 7)


torch.library.register_autograd(
    "posenc::triton_turn", _op_backward, setup_context=_setup, lib=_library
)
