"""Values turned before they are summed, and the sums turned back: what RotateValues asks for.

It is done around a backend, so that each takes it: a backend sums what it is given.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import Tensor

from posenc.dispatch_rotation import rotated
from posenc.normal_form.form import NormalForm
from posenc.torch_modes import arithmetic

# cos or sin of all tokens, how many are new: those of the new ones.
Own = Callable[[Tensor, int], Tensor]


def turned(v: Tensor, form: NormalForm, own: Own | None = None) -> Tensor:
    """v (b, g, t, d) turned by its tokens' angles, in its dtype; as it is where it comes turned.

    own  takes cos or sin of the new tokens, which v are, out of those of all
    """
    rotation = form.value_rotation
    waves = None if rotation is None else form.waves_of_values(arithmetic(v))[1]
    if rotation is None or waves is None:
        return v
    cos, sin = waves if own is None else (own(wave, v.shape[-2]) for wave in waves)
    return rotated((v,), (cos,), (sin,), rotation.layout, rotation.start)[0]


def turned_back(out: Tensor, form: NormalForm) -> Tensor:
    """Sums of values (b, h, tq, d) turned back by the angle of their query."""
    rotation = form.value_rotation
    assert rotation is not None
    cos, sin = form.waves_of_values(arithmetic(out))[0]
    return rotated((out,), (cos,), (-sin,), rotation.layout, rotation.start)[0]


def around(run: Any, call: Any) -> Any:
    """What `run` gives for this call of values that it takes as they are."""
    out = run(replace(call, v=turned(call.v, call.form)))
    if isinstance(out, Tensor):
        return turned_back(out, call.form)
    return turned_back(out[0], call.form), out[1]
