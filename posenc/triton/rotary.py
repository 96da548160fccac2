"""q and k rotated by one kernel launch: each element is read once and written once.

`posenc.rotation.rotate_pairs` is the specification. Rotating back, which is the gradient, is the
same kernel with -sin. In place it writes where it read: a program has read its pairs when it writes
them, and no other reads them.
"""

from collections.abc import Sequence
from operator import is_
from typing import Any

import torch
from torch import Tensor

from posenc.errors import ShapeError
from posenc.native.aliasing import like_rows, writable
from posenc.native.rotary_ops import apart, differ
from posenc.rotation import check_rotation
from posenc.terms import Layout
from posenc.torch_modes import plain
from posenc.triton import on_device, power_of_two
from posenc.triton.rotary_kernel import rotate_kernel

# Elements of one head that a program rotates at once, and bytes of cos and sin's heads that share
# them: few, so that many programs have their reads under way (timed on an H200).
_TILE, _SHARED = 2048, 4
_WARPS = 4
# Arguments of the kernel of q or of k: tensors and strides.
_SIDE = 13

Tensors = Sequence[Tensor]


def rotated(
    x: Tensors, cos: Tensors, sin: Tensors, layout: Layout, start: int = 0, owner: Any = None
) -> Sequence[Tensor]:
    """Each x (b, h, t, d), one or two of them, with its pairs rotated, in its own dtype.

    cos, sin  of each x, (1|b, 1|h, t, r), of any strides; they get no gradient
    owner     what cos and sin belong to, always with this layout and start: it keeps the launch,
              which is the same in the next layer, for to prepare one takes longer than to rotate

    Where the dimensions of a head lie side by side, any other strides are read and written without
    copies; outputs have the strides of their inputs.

    Raises ShapeError where angles do not fit.
    """
    interleaved = layout == "interleaved"
    if torch.is_grad_enabled() and any(one.requires_grad for one in x):
        if differ(x):
            return apart(rotated, x, cos, sin, layout, start)
        _check(x, cos, sin, start)
        return _Rotate.apply(cos, sin, interleaved, start, False, *x)
    if owner is None or not plain(*x):
        _check(x, cos, sin, start)
        return _launch(x, cos, sin, interleaved, start, False)
    return _launched_as_before(x, cos, sin, interleaved, start, owner)


def _launched_as_before(
    x: Tensors, cos: Tensors, sin: Tensors, interleaved: bool, start: int, owner: Any
) -> Tensors:
    """The same for tensors like those of the layer before, by what was launched for those."""
    like = [(one.shape, one.stride(), one.dtype, one.data_ptr() % 16) for one in x]
    known = owner.__dict__.get("_launched")
    # Tensors are asked whether they are the same, for == compares their numbers.
    if known is None or known[0] != like or not all(map(is_, (*cos, *sin), known[1])):
        _check(x, cos, sin, start)
        kept: list[Any] = []
        out = _launch(x, cos, sin, interleaved, start, False, kept=kept)
        if kept:
            owner.__dict__["_launched"] = like, (*cos, *sin), *kept
        return out
    _, _, kernel, programs, arguments = known
    out = [like_rows(one) for one in x]
    arguments = list(arguments)
    arguments[:2], arguments[_SIDE : _SIDE + 2] = (x[0], out[0]), (x[-1], out[-1])
    with on_device(x[0]):
        kernel[programs, 1, 1](*arguments)
    return out


def rotated_(
    x: Tensors, cos: Tensors, sin: Tensors, layout: Layout, start: int = 0
) -> Sequence[Tensor]:
    """The same, written into x, which `posenc.dispatch_rotation.check_inplace` has allowed."""
    _check(x, cos, sin, start)
    interleaved = layout == "interleaved"
    if not writable(*x):
        out = rotated(x, cos, sin, layout, start)
        return [one.copy_(new) for one, new in zip(x, out, strict=True)]
    if differ(x):
        return apart(rotated_, x, cos, sin, layout, start)
    if torch.is_grad_enabled() and any(one.requires_grad for one in x):
        return _RotateInPlace.apply(cos, sin, interleaved, start, *x)
    _launch_in_place(x, cos, sin, interleaved, start)
    torch.autograd.graph.increment_version(x)
    return x


def _check(x: Tensors, cos: Tensors, sin: Tensors, start: int) -> None:
    for one, c, s in zip(x, cos, sin, strict=True):
        check_rotation(one, c, start)
        if c.shape[2] != one.shape[2] or s.shape != c.shape:
            raise ShapeError(
                f"rotation has angles of shape {tuple(c.shape)}, (1|b, 1|h, t, r), "
                f"but the tensor has shape {tuple(one.shape)}"
            )


class _Rotate(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, cos: Tensors, sin: Tensors, interleaved: bool, start: int, back: bool, *x: Tensor
    ) -> tuple[Tensor, ...]:
        _keep(ctx, cos, sin, interleaved, start, not back)
        return tuple(_launch(x, cos, sin, interleaved, start, back))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        return None, None, None, None, None, *_turned_back(ctx, grads)


class _RotateInPlace(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, cos: Tensors, sin: Tensors, interleaved: bool, start: int, *x: Tensor
    ) -> tuple[Tensor, ...]:
        _keep(ctx, cos, sin, interleaved, start, True)
        ctx.mark_dirty(*x)
        _launch_in_place(x, cos, sin, interleaved, start)
        return x

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        return None, None, None, None, *_turned_back(ctx, grads)


def _keep(ctx: Any, cos: Tensors, sin: Tensors, interleaved: bool, start: int, back: bool) -> None:
    """Keep the rotation by which gradients are turned."""
    ctx.save_for_backward(*cos, *sin)
    ctx.count, ctx.settings = len(cos), (interleaved, start, back)
    ctx.set_materialize_grads(False)


def _turned_back(ctx: Any, grads: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Those gradients rotated that somebody needs, which may be differentiated in turn."""
    needs, waves = ctx.needs_input_grad, ctx.saved_tensors
    cos, sin = waves[: ctx.count], waves[ctx.count :]
    of_inputs: list[Tensor | None] = [None] * len(grads)
    wanted = {
        place: grad
        for place, grad in enumerate(grads)
        if grad is not None and needs[len(needs) - len(grads) + place]
    }
    if wanted:
        of_wanted = [cos[place] for place in wanted], [sin[place] for place in wanted]
        turned = _Rotate.apply(*of_wanted, *ctx.settings, *wanted.values())
        for place, one in zip(wanted, turned, strict=True):
            of_inputs[place] = one
    return of_inputs


def _launch_in_place(x: Tensors, cos: Tensors, sin: Tensors, interleaved: bool, start: int) -> None:
    if all(one.stride(3) == 1 for one in x):
        _launch(x, cos, sin, interleaved, start, False, x)
        return
    for one, new in zip(x, _launch(x, cos, sin, interleaved, start, False), strict=True):
        one.copy_(new)


def _launch(
    x: Tensors,
    cos: Tensors,
    sin: Tensors,
    interleaved: bool,
    start: int,
    back: bool,
    out: Tensors | None = None,
    kept: list[Any] | None = None,
) -> Tensors:
    """Each x rotated, into `out` where it is given, which may be x.

    To `kept` is added what was launched: the compiled kernel, programs, and arguments without x and
    `out`, where others that are like them may be launched so.
    """
    given = x
    x = [one if one.stride(3) == 1 else one.contiguous() for one in x]
    rest = out is None and 2 * cos[0].shape[3] < x[0].shape[3]
    out = [like_rows(one) for one in x] if out is None else out
    batch, q_heads, q_len, dim = x[0].shape
    # A single tensor also stands in for keys, of which there are no heads then.
    _, k_heads, k_len, _ = x[1].shape if len(x) > 1 else (0, 0, 0, 0)
    longest, pairs = max(q_len, k_len), cos[0].shape[3]
    if batch * longest * dim == 0:
        return out
    width, padded_pairs = power_of_two(dim), power_of_two(pairs)
    elements = width if rest else 2 * padded_pairs
    block = min(power_of_two(longest), max(1, _TILE // elements))
    tiles = -(-longest // block)
    heads = max(1, _SHARED // x[0].element_size())
    # In one dimension, for the others end at 65,535.
    programs = tiles * batch * (-(-q_heads // heads) - (-k_heads // heads))
    first = _arguments(x[0], out[0], cos[0], sin[0])
    last = first if len(x) == 1 else _arguments(x[1], out[1], cos[1], sin[1])
    unit, wave_unit = min(first[-2], last[-2]), min(first[-1], last[-1])
    arguments: list[Any] = [
        *first[0], *[n // unit for n in first[1]], *[n // wave_unit for n in first[2]],
        *last[0], *[n // unit for n in last[1]], *[n // wave_unit for n in last[2]],
        batch, q_heads, k_heads, q_len, k_len,
    ]  # fmt: skip
    # In the order of the kernel's parameters.
    constants = {
        "DIM": dim,
        "START": start,
        "PAIRS": pairs,
        "INTERLEAVED": interleaved,
        "BACK": back,
        "REST": rest,
        "BY_HEAD": cos[0].shape[1] > 1 or cos[-1].shape[1] > 1,
        "BLOCK": block,
        "PADDED_PAIRS": padded_pairs,
        "WIDTH": width,
        "HEADS": heads,
        "UNIT": unit,
        "WAVE_UNIT": wave_unit,
    }
    with on_device(x[0]):
        kernel = rotate_kernel[programs,](
            *arguments, **constants, num_warps=_WARPS, enable_fp_fusion=True
        )
    # The interpreter compiles none.
    if kept is not None and kernel is not None and all(map(is_, x, given)):
        arguments[:2] = arguments[_SIDE : _SIDE + 2] = None, None
        kept += kernel, programs, (*arguments, *constants.values())
    return out


def _arguments(
    x: Tensor, out: Tensor, cos: Tensor, sin: Tensor
) -> tuple[tuple[Tensor, ...], tuple[int, ...], tuple[int, ...], int, int]:
    """The tensors of one side, the strides of x and out and those of the waves, and the largest
    powers of two, up to 16, that divide these: what tells Triton how many it may read at once.
    """
    if cos.stride() != sin.stride() or cos.stride(3) != 1:
        cos, sin = cos.contiguous(), sin.contiguous()
    xb, xh, xt, _ = x.stride()
    ob, oh, ot, _ = out.stride()
    cb, ch, ct, _ = cos.stride()
    # Zero where one row serves every batch entry or head.
    cb, ch = 0 if cos.shape[0] == 1 else cb, 0 if cos.shape[1] == 1 else ch
    bits, wave_bits = xb | xh | xt | ob | oh | ot | 16, cb | ch | ct | 16
    unit, wave_unit = bits & -bits, wave_bits & -wave_bits
    return (x, out, cos, sin), (xb, xh, xt, ob, oh, ot), (cb, ch, ct), unit, wave_unit
