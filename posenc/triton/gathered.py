"""Flash attention whose scores and values read vectors by distance, forward and backward.

    content[i, j] = q[i] . k[j] + by_query[i, distance] + by_key[j, distance]
    out[i]        = sum of p[i, j] * (v[j] + by_value[distance])

beside what `posenc.triton.attention` adds to scores; see `posenc.triton.gathered_args`. A row of
weights by distance, p summed over the keys of each, meets the vectors of values in one product.
Memory grows with the length times the number of distances, and nothing is added by atomics.
"""

import math
from typing import Any

import torch
import triton
from torch import Tensor

from posenc.errors import UnsupportedError
from posenc.triton import in_32_bits, on_device
from posenc.triton.gathered_args import GATHERED, GatheredArgs, Vectors, exact_scales, split
from posenc.triton.gathered_forward import gathered_forward_kernel, masses_kernel
from posenc.triton.gathered_key_gradient import gathered_key_kernel
from posenc.triton.gathered_query_gradient import gathered_query_kernel
from posenc.triton.kernel_args import LOG2_E, Inputs, settings_of
from posenc.triton.tile_lists import lists_of

# What a backward pass reads of `Inputs` and may not keep by itself.
_SAVED = "q", "k", "v", "table", "past", "future", "places", "lists"


def attend(x: Inputs, vectors: Vectors) -> Tensor:
    """out (b, h, tq, e) in the dtype of q."""
    leaves = x.q, x.k, x.v, vectors.by_query, vectors.by_key, vectors.by_value
    tracked = torch.is_grad_enabled() and any(
        tensor is not None and tensor.requires_grad for tensor in leaves
    )
    if tracked or torch.compiler.is_compiling():
        return torch.ops.posenc.triton_gather(*x, *vectors)[0]
    return _forward(*x, *vectors)[0]


def attend_with_lse(x: Inputs, vectors: Vectors) -> tuple[Tensor, Tensor]:
    """The same, and the log of the sum of exp(score) of each row (b, h, tq)."""
    out, level, _ = torch.ops.posenc.triton_gather(*x, *vectors)
    return out, (level * math.log(2)).masked_fill(level == torch.inf, -torch.inf)


def _forward(*given: Any) -> tuple[Tensor, Tensor, Tensor]:
    x, vectors = exact_scales(*split(given))
    args = GatheredArgs(x, vectors)
    out, lse, masses = _outputs(*given)
    if out.numel() == 0:
        return out, lse, masses.zero_()
    launch = settings_of(args.blocks("forward"))
    programs = triton.cdiv(args.q_len, launch["BM"]) * args.batch * args.heads
    value = vectors.by_value
    far_masses = lse if value is None else lse.new_empty(*lse.shape, 2)
    shared = *args.bands, *args.bias, *args.reach, *args.places, *_lists(args)[:2]
    scalars = x.scale * LOG2_E, *args.sizes
    with on_device(x.q):
        gathered_forward_kernel[(programs,)](
            x.q, x.k, x.v, out, lse, far_masses, *args.strides, *out.stride(), *shared, *scalars,
            **args.constants, OF_VALUES=value is not None, **launch,
        )  # fmt: skip
        if value is not None:
            constants = {k: v for k, v in args.constants.items() if k not in ("VALUE_DIM", "EP")}
            masses_kernel[(programs,)](
                x.q, x.k, lse, far_masses, masses.zero_(), *args.of_values, *args.strides[:8],
                *shared, *scalars, **constants, **launch,
            )  # fmt: skip
    if value is not None:
        _add_product(out, masses, value)
    return out, lse, masses


def _lists(args: GatheredArgs, backward: bool = False) -> list[Tensor]:
    """Lists of tiles, of which plain positions read none."""
    x = args.inputs
    if x.plain:
        return [x.q] * 6
    return list(x.lists) if len(x.lists) > 2 * backward else lists_of(args, backward)


def _outputs(*given: Any) -> tuple[Tensor, Tensor, Tensor]:
    x, vectors = split(given)
    rows, value = x.q.shape[:3], vectors.by_value
    masses = x.q.new_empty(0) if value is None else x.q.new_empty(*rows, value.shape[1])
    return x.q.new_empty(*rows, x.v.shape[-1]), x.q.new_empty(rows, dtype=x.exact), masses


def _add_product(out: Tensor, masses: Tensor, value: Tensor) -> None:
    """out (b, h, tq, e) += masses (b, h, tq, n) @ value (1|h, n, e), rounded once."""
    if value.shape[0] == 1:
        out.view(-1, out.shape[-1]).addmm_(masses.flatten(0, 2), value[0])
    else:
        each = value.expand(out.shape[0], -1, -1, -1).flatten(0, 1)
        out.flatten(0, 1).baddbmm_(masses.flatten(0, 1), each)


def _backward(
    dout: Tensor, out: Tensor, lse: Tensor, masses: Tensor, dlse: Tensor | None, *given: Any
) -> tuple[Tensor, ...]:
    """The gradients of q, k, v, by_query, by_key and by_value, empty where there is none.

    lse, dlse  in units of log 2; None where nothing was made of it
    """
    as_given, as_gathered = split(given)
    x, vectors = exact_scales(as_given, as_gathered)
    args = GatheredArgs(x, vectors)
    grads = _gradients(dout, out, lse, masses, dlse, *given)
    dout = in_32_bits(dout)
    if out.numel() == 0:
        for grad in grads:
            grad.zero_()
        return grads
    dq, dk, dv, dg, _, dvalue = grads
    value, key = vectors.by_value, vectors.by_key
    # A band's gradient is zero of distances that nothing is met at.
    dg.zero_()
    each = x.q.new_zeros(0) if key is None else x.q.new_zeros(*x.q.shape[:2], *key.shape[2:])
    dm = dout if value is None else dout @ (value[0] if value.shape[0] == 1 else value).mT
    delta, of_lse = torch.empty_like(lse), lse
    if dlse is not None:
        # The gradient of the natural logarithm.
        of_lse = (dlse / math.log(2)).masked_fill(lse == torch.inf, 0.0).contiguous()
    lists = _lists(args, backward=True)
    of_queries, of_keys = (
        {**args.constants, "OF_VALUES": value is not None, **settings_of(args.blocks(kernel))}
        for kernel in ("queries", "keys")
    )
    shared = *args.bands, *args.of_values, *args.bias, *args.reach, *args.places
    scalars = x.scale * LOG2_E, x.scale if x is as_given else 1.0, *args.sizes
    many = args.batch * args.heads
    with on_device(x.q):
        gathered_query_kernel[(triton.cdiv(args.q_len, of_queries["BM"]) * many,)](
            x.q, x.k, x.v, out, dout, dq, lse, of_lse, delta, dg, dm, *args.strides,
            *out.stride(), *dout.stride(), *dq.stride(), *shared, *lists[2:4], *scalars,
            **of_queries, LSE=dlse is not None,
        )  # fmt: skip
        gathered_key_kernel[(triton.cdiv(args.k_len, of_keys["BN"]) * many // args.group,)](
            x.q, x.k, x.v, dout, dk, dv, lse, delta, each, dm, *args.strides, *dout.stride(),
            *dk.stride(), *dv.stride(), args.repeated, *shared, *lists[4:6], *scalars, **of_keys,
            REPEATS=vectors.repeated is not None,
        )  # fmt: skip
    dh = each
    if key is not None and key.shape[1] < args.heads:
        dh = each.unflatten(1, (key.shape[1], -1)).sum(2)
    if x is not as_given:
        for grad in (dq, dg, dh):
            grad.mul_(as_given.scale)
        dk.mul_(math.log(2))
    if value is not None:
        dvalue = _of_value(masses, dout, value)
    return dq, dk, dv, dg, dh, dvalue


def _of_value(masses: Tensor, dout: Tensor, value: Tensor) -> Tensor:
    """The gradient of the vectors of values: those of all heads in one product, if they share."""
    if value.shape[0] == 1:
        return (masses.flatten(0, 2).mT @ dout.flatten(0, 2))[None]
    return (masses.mT @ dout).sum(0)


def _gradients(
    dout: Tensor, out: Tensor, lse: Tensor, masses: Tensor, dlse: Tensor | None, *given: Any
) -> tuple[Tensor, ...]:
    x, vectors = split(given)
    told = vectors.by_query, vectors.by_key, vectors.by_value
    rest = (lse.new_empty(0) if one is None else one.new_empty(one.shape) for one in told)
    return torch.empty_like(x.q), torch.empty_like(x.k), torch.empty_like(x.v), *rest


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    x, vectors = split(inputs)
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(output[2])
    told = vectors.by_query, vectors.by_key, vectors.by_value
    tensors = x.q, x.k, x.v, x.table, x.past, x.future, *told, vectors.repeated
    ctx.save_for_backward(*output, *tensors, *x.places, *x.lists)
    ctx.placed = len(x.places)
    ctx.settings = {name: one for name, one in x._asdict().items() if name not in _SAVED}
    ctx.zeros = vectors.query_zero, vectors.key_zero, vectors.value_zero


def _op_backward(ctx: Any, dout: Tensor | None, dlse: Tensor | None, _: None) -> tuple[Any, ...]:
    out, lse, masses, q, k, v, table, past, future, *rest = ctx.saved_tensors
    query, key, value, repeated, *told = rest
    places, lists = told[: ctx.placed], told[ctx.placed :]
    dout = torch.zeros_like(out) if dout is None else dout
    saved = q, k, v, table, past, future, places, lists
    fields: dict[str, Any] = ctx.settings | dict(zip(_SAVED, saved, strict=True))
    x = Inputs(**fields)
    vectors = (x for pair in zip((query, key, value), ctx.zeros, strict=True) for x in pair)
    dq, dk, dv, *others = torch.ops.posenc.triton_gather_backward(
        dout, out, lse, masses, dlse, *x, *vectors, repeated
    )
    dg, dh, dvalue = (
        None if tensor is None else grad
        for tensor, grad in zip((query, key, value), others, strict=True)
    )
    of_x: dict[str, Any] = dict.fromkeys(Inputs._fields)
    of_x |= {"q": dq, "k": dk, "v": dv}
    of_x |= {"places": [None] * len(places), "lists": [None] * len(lists)}
    return *of_x.values(), dg, None, dh, None, dvalue, None, None


def _no_second(ctx: Any, *_: Any) -> None:
    raise UnsupportedError(
        "attend(backend='triton') has no gradient of its gradient: "
        "use backend='reference' where create_graph=True"
    )


_library = torch.library.Library("posenc", "FRAGMENT")
_library.define(f"triton_gather({GATHERED}) -> (Tensor, Tensor, Tensor)")
_library.define(
    "triton_gather_backward(Tensor dout, Tensor out, Tensor lse, Tensor masses, Tensor? dlse, "
    f"{GATHERED}) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)
for _key in ("CPU", "CUDA"):
    _library.impl("triton_gather", _forward, _key)
    _library.impl("triton_gather_backward", _backward, _key)
torch.library.register_fake("posenc::triton_gather", _outputs, lib=_library)
torch.library.register_fake("posenc::triton_gather_backward", _gradients, lib=_library)
torch.library.register_autograd(
    "posenc::triton_gather", _op_backward, setup_context=_setup, lib=_library
)
torch.library.register_autograd("posenc::triton_gather_backward", _no_second, lib=_library)
