"""Tensors rotated by cos and sin, q and k by one call of a C kernel; PyTorch where it does not fit.

Graphs hold two operators, eager calls take the kernel straight, for a dispatcher costs as much:

    posenc::rotate(Tensor[] x, Tensor[] cos, Tensor[] sin, bool interleaved, int start, bool back)

returns each x (b, h, t, d) with the pairs of its dimensions start .. start + 2r rotated by cos and
sin (1|b, 1|h, t, r), against their direction where `back`; `posenc::rotate_` writes into x.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Any

import torch
from torch import Tensor

from posenc.errors import UnsupportedError
from posenc.native.aliasing import holders, holders_of_one, writable
from posenc.native.library import LIBRARY, TYPES
from posenc.rotation import check_rotation, rotate_pairs
from posenc.terms import Layout
from posenc.torch_modes import autocast_off, exporting_to_onnx, plain, threads

# struct pe_rotation with one and with two of struct pe_rotated, and the types of x and of cos.
_CALLS = {1: Struct("=6q18q").pack, 2: Struct("=6q36q").pack}
_TYPES = {
    (kind, torch.float64 if kind == torch.float64 else torch.float32): number
    for kind, number in TYPES.items()
}
# From so many bytes on, page faults of a fresh output cost more than its contents.
_HUGE = 1 << 22

Tensors = Sequence[Tensor]


def rotated(
    x: Tensors, cos: Tensors, sin: Tensors, layout: Layout, start: int = 0
) -> Sequence[Tensor]:
    """Each x rotated, in its own dtype; arithmetic in the dtype of cos."""
    interleaved = layout == "interleaved"
    if torch.compiler.is_compiling():
        if _suits_graph(x, cos, sin):
            for one, c in zip(x, cos, strict=True):
                check_rotation(one, c, start)
            return torch.ops.posenc.rotate.default(x, cos, sin, interleaved, start, False)
    elif _suits_kernel(x) and not _need_gradient(cos):
        if _need_gradient(x):
            return _OutOfPlace.apply(cos, sin, interleaved, start, False, *x)
        return _rotate(x, cos, sin, interleaved, start, False)
    return _in_pytorch(x, cos, sin, interleaved, start, False)


def rotated_(
    x: Tensors, cos: Tensors, sin: Tensors, layout: Layout, start: int = 0
) -> Sequence[Tensor]:
    """The same, written into x.

    Allowed for tensors that need no gradient, views among them, and for those that do where they
    are results (no leaves) and no views: autograd then sees that they changed.

    Raises UnsupportedError for others.
    """
    interleaved = layout == "interleaved"
    check_inplace(*x)
    if torch.compiler.is_compiling():
        if _suits_graph(x, cos, sin) and not _need_gradient(x):
            for one, c in zip(x, cos, strict=True):
                check_rotation(one, c, start)
            torch.ops.posenc.rotate_.default(x, cos, sin, interleaved, start, False)
            return x
    elif _suits_kernel(x) and not _need_gradient(cos) and writable(*x):
        if _need_gradient(x):
            return _InPlace.apply(cos, sin, interleaved, start, *x)
        if _run(x, x, cos, sin, interleaved, start, False):
            torch.autograd.graph.increment_version(x)
            return x
    return _written(x, rotated(x, cos, sin, layout, start))


def check_inplace(*x: Tensor) -> None:
    """Raise UnsupportedError where writing into x, q before k, would break a gradient."""
    graph = torch.compiler.is_compiling()
    for name, one in zip("qk", x, strict=False):
        # In graphs nothing is written over: what is in place there is decided by the compiler.
        if _need_gradient((one,)) and (one.is_leaf or (not graph and one._is_view())):
            kind = "a leaf" if one.is_leaf else "a view of another tensor"
            raise UnsupportedError(
                f"rotate(inplace=True): {name} needs a gradient and is {kind}, so that the "
                "gradient would be computed from overwritten values; use inplace=False"
            )


def _suits_kernel(x: Tensors) -> bool:
    """Whether the kernel may be called straight, for tensors in a CPU's memory."""
    for one in x:
        if not one.is_cpu:
            return False
    return not isinstance(LIBRARY, str) and plain(*x)


def _suits_graph(x: Tensors, cos: Tensors, sin: Tensors) -> bool:
    """Whether a graph shall hold the operators: not for ONNX, which knows them not."""
    if isinstance(LIBRARY, str) or exporting_to_onnx() or _need_gradient(cos):
        return False
    for one, c in zip(x, cos, strict=True):
        if one.device.type != "cpu" or (one.dtype, c.dtype) not in _TYPES:
            return False
    return True


def _need_gradient(x: Tensors) -> bool:
    for one in x:
        if one.requires_grad:
            return torch.is_grad_enabled()
    return False


def _run(
    x: Tensors,
    out: Tensors,
    cos: Tensors,
    sin: Tensors,
    interleaved: bool,
    start: int,
    back: bool,
) -> bool:
    """Write x, rotated, into `out`, which may be x; False where the kernel cannot."""
    if isinstance(LIBRARY, str):
        return False
    # struct pe_rotated of each tensor.
    fields: list[int] = []
    table = None
    for one, to, c, s in zip(x, out, cos, sin, strict=True):
        # q and k mostly share their cos and sin; each question to a tensor takes its time.
        if table is None or c is not cos[0] or s is not sin[0]:
            table = _table(c, s)
        if table is None or one.ndim != 4 or not one.is_cpu:
            return False
        (of_batch, of_heads, of_tokens, pairs), dtype, addresses, steps = table
        kind = _TYPES.get((one.dtype, dtype))
        batch, heads, tokens, dim = one.shape
        by_batch, by_head, by_token, by_dim = one.stride()
        to_batch, to_head, to_token, to_dim = to.stride()
        if kind is None or by_dim != 1 or to_dim != 1 or start + 2 * pairs > dim:
            return False
        if of_tokens != tokens or of_batch not in (1, batch) or of_heads not in (1, heads):
            return False
        fields += (one.data_ptr(), to.data_ptr(), *addresses, kind, batch, heads, tokens, dim)
        fields += (by_batch, by_head, by_token, to_batch, to_head, to_token, *steps)
        if to is not one and to.nbytes >= _HUGE:
            LIBRARY.kernels.pe_huge_pages(to.data_ptr(), to.nbytes)
    count, pairs = len(cos), cos[0].shape[-1]
    call = _CALLS[count](count, pairs, start, interleaved, back, threads(), *fields)
    LIBRARY.kernels.pe_rotate(call)
    return True


def _table(
    cos: Tensor, sin: Tensor
) -> tuple[torch.Size, torch.dtype, tuple[int, int], tuple[int, int, int]] | None:
    """Shape, dtype, addresses and steps of cos and sin, or None where they differ in more."""
    shape, strides = cos.shape, cos.stride()
    if len(shape) != 4 or strides[3] != 1 or shape != sin.shape or strides != sin.stride():
        return None
    if cos.dtype != sin.dtype or not (cos.is_cpu and sin.is_cpu):
        return None
    steps = strides[0] if shape[0] > 1 else 0, strides[1] if shape[1] > 1 else 0, strides[2]
    return shape, cos.dtype, (cos.data_ptr(), sin.data_ptr()), steps


def _in_pytorch(
    x: Tensors, cos: Tensors, sin: Tensors, interleaved: bool, start: int, back: bool
) -> list[Tensor]:
    layout = "interleaved" if interleaved else "half"
    out = []
    for one, c, s in zip(x, cos, sin, strict=True):
        with autocast_off(one.device):
            out.append(rotate_pairs(one, c, -s if back else s, layout, start).to(one.dtype))
    return out


def _written(x: Tensors, new: Tensors) -> Tensors:
    return [one.copy_(other) for one, other in zip(x, new, strict=True)]


class _OutOfPlace(torch.autograd.Function):
    """x rotated, and its gradient rotated back."""

    @staticmethod
    def forward(
        ctx: Any, cos: Tensors, sin: Tensors, interleaved: bool, start: int, back: bool, *x: Tensor
    ) -> tuple[Tensor, ...]:
        _keep(ctx, (x, cos, sin, interleaved, start, back), None)
        return tuple(_rotate(x, cos, sin, interleaved, start, back))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, None, None, None, *_rotate_back(ctx, grads)[0]


class _InPlace(torch.autograd.Function):
    """x rotated where it lies; its gradient rotated back, there too if it has no reader."""

    @staticmethod
    def forward(
        ctx: Any, cos: Tensors, sin: Tensors, interleaved: bool, start: int, *x: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.mark_dirty(*x)
        _rotate_in_place(x, cos, sin, interleaved, start, False)
        ctx.undone = cos, sin, interleaved, start, True
        large = any(one.nbytes >= _HUGE for one in x)
        ctx.alone = holders_of_one() if large else None
        return x

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.alone and not torch.is_grad_enabled() and set(holders(grads)) == {ctx.alone}:
            torch.ops.posenc.rotate_.default(grads, *ctx.undone)
            return None, None, None, None, *grads
        return None, None, None, None, *_rotated_grads(grads, *ctx.undone)


def _rotate(x: Tensors, *rotation: Any) -> Tensors:
    out = _like(x)
    return out if _run(x, out, *rotation) else _written(out, _in_pytorch(x, *rotation))


def _rotate_in_place(x: Tensors, *rotation: Any) -> None:
    if not (writable(*x) and _run(x, x, *rotation)):
        _written(x, _in_pytorch(x, *rotation))


def _like(x: Tensors, *_: object) -> list[Tensor]:
    return [torch.empty_like(one) for one in x]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: object) -> None:
    _, cos, sin, ctx.interleaved, ctx.start, ctx.back = inputs
    ctx.count = len(cos)
    ctx.save_for_backward(*cos, *sin)


def _rotate_back(ctx: Any, grads: Tensors) -> tuple[Any, ...]:
    cos, sin = ctx.saved_tensors[: ctx.count], ctx.saved_tensors[ctx.count :]
    settings = ctx.interleaved, ctx.start, not ctx.back
    none = [None] * ctx.count
    return _rotated_grads(grads, cos, sin, *settings), none, none, None, None, None


def _rotated_grads(grads: Tensors, *rotation: Any) -> Tensors:
    """Gradients rotated: by the operator where they have gradients themselves, or in a graph."""
    graph = torch.is_grad_enabled() or torch.compiler.is_compiling() or not _suits_kernel(grads)
    return (torch.ops.posenc.rotate.default if graph else _rotate)(grads, *rotation)


_SETTINGS = "Tensor[] cos, Tensor[] sin, bool interleaved, int start, bool back"
_OPERATORS = torch.library.Library("posenc", "FRAGMENT")
_OPERATORS.define(f"rotate(Tensor[] x, {_SETTINGS}) -> Tensor[]")
_OPERATORS.define(f"rotate_(Tensor(a!)[] x, {_SETTINGS}) -> ()")
# Other devices than CPUs run what the kernel falls back to.
_OPERATORS.impl("rotate", _rotate, "CompositeExplicitAutograd")
_OPERATORS.impl("rotate_", _rotate_in_place, "CompositeExplicitAutograd")
torch.library.register_fake("posenc::rotate", _like, lib=_OPERATORS)
torch.library.register_fake("posenc::rotate_", lambda *_: None, lib=_OPERATORS)
torch.library.register_autograd("posenc::rotate", _rotate_back, setup_context=_keep, lib=_OPERATORS)
