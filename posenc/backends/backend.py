"""A backend: what it can do, as data, and the function that does it."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from posenc.backends.call import Call
from posenc.normal_form.features import Feature
from posenc.tracing import transformed

_TRANSFORMS = "transforms of torch.func and forward-mode gradients need PyTorch's own operators"
Reason = Callable[[Call], str | None]


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
    """

    attend: Callable[[Call], Tensor]
    can: frozenset[Feature] = frozenset(Feature)
    devices: tuple[str, ...] | None = None
    dropout: bool = True
    transforms: bool = True
    onnx: bool = True
    limits: Reason = lambda call: None
    declines: Reason = lambda call: None
    _lacks: tuple[Feature, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # torch 2.7 traces neither a loop over an enumeration nor a frozen set of the outside.
        lacks = tuple(feature for feature in Feature if feature not in self.can)
        object.__setattr__(self, "_lacks", lacks)

    def unsupported_reason(self, call: Call) -> str | None:
        """Why it cannot compute this call, or None."""
        device = call.q.device.type
        if self.devices is not None and device not in self.devices:
            return f"it runs on {' and '.join(self.devices)}, and q is on {device}"
        if not self.onnx and torch.onnx.is_in_onnx_export():
            return "ONNX knows no operator of its kind"
        if not self.transforms and not torch.compiler.is_compiling() and transformed():
            return _TRANSFORMS
        if not self.dropout and call.dropout:
            return "it has no dropout"
        asked = call.form.features
        for feature in self._lacks:
            if feature in asked:
                return feature.value
        return self.limits(call)
