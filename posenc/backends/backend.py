"""A backend: what it is given, what it can do, as data, and the function that does it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.dispatch_rotation import rotated
from posenc.equation import group
from posenc.errors import ShapeError
from posenc.lowering import Lowered
from posenc.normal_form.features import Feature
from posenc.normal_form.form import NormalForm, rotations_of
from posenc.polar import lifted
from posenc.rotation import CosSin, per_query_head
from posenc.terms import Polar, Rotate, Zones
from posenc.torch_modes import (
    FLOATS,
    arithmetic,
    cast_to,
    device_of,
    device_type,
    exporting_to_onnx,
    transformed,
)
from posenc.transform import before
from posenc.value_rotation import around

# Keys of a query head from which on packing them is paid for where SDPA is slow, and how many query
# heads may share them there: in SDPA those are rows of one product, which is faster.
SOME_KEYS = 256
_SHARING: dict[torch.dtype | None, int] = {torch.bfloat16: 1, torch.float16: 4}
_TRANSFORMS = "transforms of torch.func and forward-mode gradients need PyTorch's own operators"


@dataclass(frozen=True, eq=False)
class Call:
    """One call of attend, checked and complete: the queries are as given, never rotated.

    Backends read `form`; the reference alone reads the terms.
    """

    q: Float[Tensor, "b h tq d"]
    k: Float[Tensor, "b g tk d"]
    v: Float[Tensor, "b g tk d_v"]
    lowered: Lowered
    scale: float
    dropout: float
    # Whether the log of the sum of exp(score) of each row is asked for too.
    lse: bool = False

    @property
    def form(self) -> NormalForm:
        """What is computed, in normal form."""
        return self.lowered.form

    @property
    def width(self) -> int:
        """How many dimensions q and k have where they meet."""
        return self.q.shape[-1] * (2 if isinstance(self.form.rotation, Polar) else 1)


Reason = Callable[[Call], str | None]
NextLayer = Callable[[Tensor, Tensor, Tensor], Tensor | None]


@dataclass(frozen=True)
class Backend:
    """One way to compute attention.

    attend      the output (b, h, tq, d_v), in v's dtype
    can         what it can do of what a normal form asks
    devices     types of devices; None: any
    dropout     on the attention weights
    transforms  torch.func and forward-mode gradients
    onnx        whether an export to ONNX can hold it
    limits      why it cannot compute a call for another reason, or None
    declines    why `auto` leaves to others what it could compute, or None
    reads_terms whether it reads terms, and turns values itself
    next_layer  on a CPU, where neither terms nor tensors learn: what computes this call for other
                tensors of the same shapes and dtypes. It gives None once the terms have changed.
                None instead of it where `attend` has to ask in each layer
    with_lse    the output and the log of the sum of exp(score) of each row (b, h, tq), in the dtype
                of the arithmetic and -inf where nothing is seen; None: it cannot tell that
    """

    attend: Callable[[Call], Tensor]
    can: frozenset[Feature] = frozenset(Feature)
    devices: tuple[str, ...] | None = None
    dropout: bool = True
    transforms: bool = True
    onnx: bool = True
    limits: Reason = lambda call: None
    declines: Reason = lambda call: None
    with_lse: Callable[[Call], tuple[Tensor, Tensor]] | None = None
    next_layer: Callable[[Call], NextLayer | None] = lambda call: None
    reads_terms: bool = False
    _lacks: tuple[Feature, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # Queries and keys are multiplied before it, and values are turned around it, so that all
        # that it adds to them is turned back.
        can = self.can | {Feature.VALUE_ROTATION, Feature.TRANSFORM}
        if not self.reads_terms:
            can = can - {Feature.VALUE_VECTORS_BESIDE_ROTATION}
        # torch 2.7 traces neither a loop over an enumeration nor a frozen set of the outside.
        lacks = tuple(feature for feature in Feature if feature not in can)
        object.__setattr__(self, "_lacks", lacks)

    def run(self, call: Call) -> Callable[[Call], Any]:
        """What computes this call, which `unsupported_reason` has nothing against."""
        run = self.with_lse if call.lse and self.with_lse is not None else self.attend
        if self.reads_terms:
            return run
        if call.form.transform is not None:
            run = partial(before, run)
        # Outside, for a Transform may give keys and values as many heads as queries have, and the
        # angles of values are of those that came.
        return run if call.form.value_rotation is None else partial(around, run)

    def unsupported_reason(self, call: Call) -> str | None:
        """Why it cannot compute this call, or None."""
        device = device_type(call.q)
        if self.devices is not None and device not in self.devices:
            return f"it runs on {' and '.join(self.devices)}, and q is on {device}"
        if not self.onnx and exporting_to_onnx():
            return "ONNX knows no operator of its kind"
        if not self.transforms and not torch.compiler.is_compiling() and transformed():
            return _TRANSFORMS
        if not self.dropout and call.dropout:
            return "it has no dropout"
        if call.lse and self.with_lse is None:
            return "it does not give the log of the sum of exp(score), which return_lse=True asks"
        asked = call.form.features
        for feature in self._lacks:
            if feature in asked:
                return feature.value
        return self.limits(call)


def operands(call: Call) -> tuple[Tensor, Tensor, Tensor, float]:
    """q and k, rotated, and v with as many heads as k, in one dtype; the scale of q . k.

    What every fused backend begins with. Of Polar, q and k have twice the width.
    """
    form = call.form
    turned = form.rotation is not None or form.query_scale is not None
    if not turned and call.q.dtype == call.k.dtype == call.v.dtype:
        return call.q, call.k, call.v, call.scale * form.scale
    near = rotations_of(form.rotation)[0] if form.rotation is not None else None
    dtype = arithmetic(call.q, call.k, call.v)
    waves = None if near is None else form.waves(dtype)
    q, k, v = _rotated(call, near, waves, dtype)
    return q, k, v, 1.0 if form.query_scale is not None else call.scale * form.scale


def far_operands(call: Call) -> tuple[Tensor, Tensor] | None:
    """q and k as they meet beyond a zone, the rest as `operands` gives it; None without zones."""
    rotation = call.form.rotation
    if not isinstance(rotation, Zones):
        return None
    dtype = arithmetic(call.q, call.k, call.v)
    return _rotated(call, rotation.far, call.form.waves_beyond(dtype), dtype)[:2]


def _rotated(
    call: Call,
    term: Rotate | None,
    waves: tuple[CosSin, CosSin | None] | None,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    """q, scaled where its scale differs by query, and k as a term rotates them, and v."""
    form = call.form
    common = common_dtype(call, dtype)
    factor = form.query_scale
    # Rounded once: a scale that differs between queries multiplies what is not rounded yet.
    q = cast_to(dtype if factor is not None else common, call.q)
    k, v = cast_to(common, call.k), cast_to(common, call.v)
    if k.shape[1] < q.shape[1]:
        for one in rotations_of(form.rotation):
            # Where every query head rotates keys by angles of its own, there are more of them now.
            k = per_query_head(k, one, q.shape[1])
    if term is not None and waves is not None:
        q_waves, k_waves = waves
        if isinstance(form.rotation, Polar):
            q, k = lifted(q, k, *waves)
        elif k_waves is None:
            q = rotated((q,), q_waves[:1], q_waves[1:], term.layout, term.start)[0]
        else:
            cos, sin = (q_waves[0], k_waves[0]), (q_waves[1], k_waves[1])
            q, k = rotated((q, k), cos, sin, term.layout, term.start, form)
    if factor is not None:
        q = (q * (call.scale * form.scale * factor.to(dtype)[..., None])).to(common)
    return q, k, group(v, k.shape[1]) if v.shape[1] < k.shape[1] else v


def common_dtype(call: Call, dtype: torch.dtype) -> torch.dtype:
    """The dtype in which a fused kernel reads q, k and v; `dtype` is that of the arithmetic."""
    common = call.q.dtype
    for other in (call.k.dtype, call.v.dtype):
        common = common if other == common else torch.promote_types(common, other)
    if call.form.rotation is None:
        return common
    learns = torch.is_grad_enabled()
    for term in rotations_of(call.form.rotation):
        # Angles learn from sums over tokens in which the rounding of 16 bits adds up.
        angles = term.q_angle, term.k_angle, term.q_log_scale, term.k_log_scale
        if learns and any(x is not None and x.requires_grad for x in angles):
            return dtype
        if term.grows and common == torch.float16:
            # Its factors leave the range of float16.
            return dtype
    return common


def scale_of(call: Call) -> Tensor | float:
    """What multiplies the content: a number, or (1|b, 1|h, tq, 1)."""
    scale, factor = call.scale * call.form.scale, call.form.query_scale
    if factor is None:
        return scale
    return scale * factor.to(arithmetic(call.q, call.k, call.v))[..., None]


def slow_in_sdpa(q: Tensor, k: Tensor) -> bool:
    """Whether SDPA is slow where a few queries meet these keys."""
    heads, key_heads, sharing = q.shape[1], k.shape[1], _SHARING.get(dtype_of(q, k), 0)
    return heads <= sharing * key_heads and k.shape[2] * key_heads >= SOME_KEYS * heads


def dtype_of(q: Tensor, k: Tensor) -> torch.dtype | None:
    """The dtype in which SDPA computes these, which in 16 bits takes it longer; None for two."""
    return q.dtype if q.dtype == k.dtype else None


def hides_most(form: NormalForm, keys: int) -> bool:
    """Whether a window or a chunk hides so many keys that a few queries pay for skipping them."""
    seen = form.visibility
    return any(width is not None and 4 * width <= keys for width in (seen.window, seen.chunk))


def check_shapes(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Raise ShapeError unless these are queries, keys and values of one attention."""
    if _fit(q, k, v):
        return
    shapes = f"q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}"
    if not q.ndim == k.ndim == v.ndim == 4:
        raise ShapeError(f"(batch, heads, tokens, head dimension) is needed, got {shapes}")
    if not (q.is_floating_point() and k.is_floating_point() and v.is_floating_point()):
        raise ShapeError(f"floating-point tensors are needed, got {q.dtype}, {k.dtype}, {v.dtype}")
    if not device_of(q) == device_of(k) == device_of(v):
        raise ShapeError(
            f"q is on {q.device}, k on {k.device} and v on {v.device}: move them to one"
        )
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.dtype not in FLOATS:
            raise ShapeError(
                f"{name} is {x.dtype}, in which nothing can be added up: give float16, bfloat16, "
                f"float32 or float64, {name}.to(torch.bfloat16)"
            )
        if x.shape[1] == 0 or x.shape[3] == 0:
            raise ShapeError(f"at least one head of one dimension is needed, got {shapes}")
    if q.shape[0] != k.shape[0] or k.shape[:3] != v.shape[:3] or q.shape[-1] != k.shape[-1]:
        raise ShapeError(
            "q and k must share batch and head dimension, k and v batch, heads and tokens; "
            f"got {shapes}"
        )
    raise ShapeError(
        f"{q.shape[1]} query heads and {k.shape[1]} key heads: "
        "grouped-query attention needs a multiple"
    )


def _fit(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether there is nothing for `check_shapes` to say."""
    q_shape, k_shape, v_shape = q.shape, k.shape, v.shape
    if not len(q_shape) == len(k_shape) == len(v_shape) == 4:
        return False
    dtype = q.dtype
    if dtype not in FLOATS:
        return False
    if not k.dtype == v.dtype == dtype and (k.dtype not in FLOATS or v.dtype not in FLOATS):
        return False
    batch, heads, _, dim = q_shape
    k_batch, key_heads, keys, k_dim = k_shape
    v_batch, value_heads, values, v_dim = v_shape
    if not batch == k_batch == v_batch or dim != k_dim or key_heads != value_heads:
        return False
    if not device_of(q) == device_of(k) == device_of(v):
        return False
    some = keys == values and heads != 0 and key_heads != 0 and dim != 0 and v_dim != 0
    return some and heads % key_heads == 0
