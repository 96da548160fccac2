"""Tensors rotated by cos and sin, q and k by one call of a C kernel; PyTorch where it does not fit.

Graphs hold two operators, eager calls take the kernel straight, for a dispatcher costs as much:

    posenc::rotate(Tensor[] x, Tensor[] cos, Tensor[] sin, bool interleaved, int start, bool back)

returns each x (b, h, t, d) with the pairs of its dimensions start .. start + 2r rotated by cos and
sin (1|b, 1|h, t, r), against their direction where `back`; `posenc::rotate_` writes into x.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from posenc.errors import UnsupportedError
from posenc.native.aliasing import holders, holders_of_one, like_rows, writable
from posenc.native.library import LIBRARY
from posenc.native.rotary_packing import BESIDE, HUGE, packed, run_packed
from posenc.rotation import check_rotation, rotate_pairs
from posenc.terms import Layout
from posenc.torch_modes import autocast_off, batched, exporting_to_onnx, plain, threads

Tensors = Sequence[Tensor]


def rotated(
    x: Tensors,
    cos: Tensors,
    sin: Tensors,
    layout: Layout,
    start: int = 0,
) -> Sequence[Tensor]:
    """Each x rotated, in its own dtype; arithmetic in the dtype of cos."""
    interleaved = layout == "interleaved"
    if torch.compiler.is_compiling():
        if _suits_graph(x, cos, sin):
            if differ(x):
                return apart(rotated, x, cos, sin, layout, start)
            for one, c in zip(x, cos, strict=True):
                check_rotation(one, c, start)
            return torch.ops.posenc.rotate.default(x, cos, sin, interleaved, start, False)
    elif _suits_kernel(x) and not _need_gradient(cos):
        if _need_gradient(x):
            out = _OutOfPlace.apply(cos, sin, interleaved, start, False, *x)
            # Together, for the bits of one depend on whether the kernel takes both.
            return [y if one.requires_grad else y.detach() for y, one in zip(out, x, strict=True)]
        return _rotate(x, cos, sin, interleaved, start, False)
    return _in_pytorch(x, cos, sin, interleaved, start, False)


def turning(
    x: Tensors, cos: Tensors, sin: Tensors, layout: Layout, start: int = 0
) -> Callable[[Tensors], Tensors] | None:
    """What rotates other tensors of these shapes and dtypes, which nothing watches, by a call of
    the kernel that is packed here; None where the kernel does not fit.
    """
    if not _suits_kernel(x) or _need_gradient(cos):
        return None
    rotation = cos, sin, layout == "interleaved", start, False
    call = packed(x, _like(x), *rotation)
    if call is None:
        return None
    steps, workers = [one.stride() for one in x], threads()

    def turn(x: Tensors) -> Tensors:
        out = _like(x)
        if [one.stride() for one in x] != steps or threads() != workers:
            return _fill(x, out, *rotation)
        run_packed(call, x, out)
        return out

    return turn


def rotated_into(
    x: Tensors, out: Tensors, cos: Tensors, sin: Tensors, layout: Layout, start: int = 0
) -> None:
    """The same, written into `out`, for tensors that nothing watches, autograd neither."""
    _fill(x, out, cos, sin, layout == "interleaved", start, False)


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
        if differ(x):
            return apart(rotated_, x, cos, sin, layout, start)
        if _need_gradient(x):
            return _InPlace.apply(cos, sin, interleaved, start, *x)
        if _run(x, x, cos, sin, interleaved, start, False):
            torch.autograd.graph.increment_version(x)
            return x
    return _written(x, rotated(x, cos, sin, layout, start))


def differ(x: Tensors) -> bool:
    """Whether one of two tensors needs a gradient and the other none.

    One function of autograd would make both outputs need one, and take a buffer into the graph.
    """
    return x[0].requires_grad != x[-1].requires_grad and torch.is_grad_enabled()


def apart(
    rotate: Callable[..., Tensors], x: Tensors, cos: Tensors, sin: Tensors, *settings: Any
) -> Tensors:
    """Each x rotated by a call of its own."""
    each = zip(x, cos, sin, strict=True)
    return [rotate((one,), (c,), (s,), *settings)[0] for one, c, s in each]


def check_inplace(*x: Tensor) -> None:
    """Raise UnsupportedError where writing into x, q before k, would break a gradient, and where
    elements share their memory.
    """
    graph = torch.compiler.is_compiling()
    for name, one in zip("qk", x, strict=False):
        if not graph and 0 in one.stride():
            steps = zip(one.stride(), one.shape, strict=True)
            if any(step == 0 and size > 1 for step, size in steps):
                raise UnsupportedError(
                    f"rotate(inplace=True): elements of {name}, of shape {tuple(one.shape)} and "
                    f"strides {one.stride()}, share their memory, as expand makes them: use "
                    f"inplace=False, or give {name}.contiguous()"
                )
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
        if one.device.type != "cpu" or (one.dtype, c.dtype) not in BESIDE:
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
    call = packed(x, out, cos, sin, interleaved, start, back)
    if call is not None:
        run_packed(call, x, out)
    return call is not None


def _fill(x: Tensors, out: Tensors, *rotation: Any) -> Tensors:
    """`out`, which x is written into, rotated."""
    return out if _run(x, out, *rotation) else _written(out, _in_pytorch(x, *rotation))


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
        _keep(ctx, (x, cos, sin, interleaved, start, False), None)
        large = any(one.nbytes >= HUGE for one in x)
        ctx.alone = holders_of_one() if large else None
        return x

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        apart = not torch.is_grad_enabled() and not batched(*grads)
        if ctx.alone and apart and set(holders(grads)) == {ctx.alone}:
            torch.ops.posenc.rotate_.default(grads, *_undone(ctx))
            return None, None, None, None, *grads
        return None, None, None, None, *_rotated_grads(grads, *_undone(ctx))


def _rotate(x: Tensors, *rotation: Any) -> Tensors:
    return _fill(x, _like(x), *rotation)


def _rotate_in_place(x: Tensors, *rotation: Any) -> None:
    if not (writable(*x) and _run(x, x, *rotation)):
        _written(x, _in_pytorch(x, *rotation))


def _like(x: Tensors, *_: object) -> list[Tensor]:
    return [like_rows(one) for one in x]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: object) -> None:
    _, cos, sin, ctx.interleaved, ctx.start, ctx.back = inputs
    ctx.count = len(cos)
    ctx.save_for_backward(*cos, *sin)


def _undone(ctx: Any) -> tuple[Any, ...]:
    """The rotation back."""
    # Read once: checkpointing computes again what is read, and hands it out a single time.
    waves = ctx.saved_tensors
    return waves[: ctx.count], waves[ctx.count :], ctx.interleaved, ctx.start, not ctx.back


def _rotate_back(ctx: Any, grads: Tensors) -> tuple[Any, ...]:
    none = [None] * ctx.count
    return _rotated_grads(grads, *_undone(ctx)), none, none, None, None, None


def _rotated_grads(grads: Tensors, *rotation: Any) -> Tensors:
    """Gradients rotated: by the operator where they have gradients themselves, or in a graph."""
    if batched(*grads):
        return _in_pytorch(grads, *rotation)
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
