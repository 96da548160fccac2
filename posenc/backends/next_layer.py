"""A call for the tensors of the next layer, which differ from those before in their numbers alone:
what was found out of the terms, and packed for kernels, is there already.
"""

from collections.abc import Callable

from torch import Tensor

from posenc.backends.backend import Call, common_dtype
from posenc.native.rotary_ops import turning
from posenc.normal_form.form import NormalForm
from posenc.terms import Rotate
from posenc.torch_modes import arithmetic, versions_of


def turned_alike(call: Call) -> Callable[[Tensor, Tensor], tuple[Tensor, ...]] | None:
    """What turns other queries and keys as `operands` turns these; None where it does more."""
    form, dtype = call.form, call.q.dtype
    if form.query_scale is not None or not dtype == call.k.dtype == call.v.dtype:
        return None
    rotation = form.rotation
    if rotation is None:
        return lambda q, k: (q, k)
    wide = arithmetic(call.q)
    if not isinstance(rotation, Rotate) or common_dtype(call, wide) != dtype:
        return None
    q_waves, k_waves = form.waves(wide)
    if k_waves is None:
        return None
    cos, sin = zip(q_waves, k_waves, strict=True)
    turn = turning((call.q, call.k), cos, sin, rotation.layout, rotation.start)
    return None if turn is None else lambda q, k: tuple(turn((q, k)))


def unchanged(form: NormalForm) -> Callable[[], bool]:
    """What tells whether the tensors of the terms are as they are now."""
    tensors = form.tensors
    versions = versions_of(tensors)
    return lambda: versions_of(tensors) == versions
