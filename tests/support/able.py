"""Which backends take a call: the others refuse it, with a reason that other tests read."""

from typing import Any

from torch import Tensor

from posenc.attention import build_call
from posenc.backends import BACKENDS
from posenc.lowering import Lowerable


def able(q: Tensor, k: Tensor, v: Tensor, encoding: Lowerable, **where: Any) -> list[str]:
    """Backends that do not refuse this call of `attend`; the reference never does."""
    call = build_call(q, k, v, encoding, **where)
    names = [name for name, module in BACKENDS.items() if module.unsupported_reason(call) is None]
    assert names[-1] == "reference"
    return names
