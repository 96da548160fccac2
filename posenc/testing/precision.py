"""Checks of low precision: every backend rounds its inputs, and sums what it rounded in float32."""

import torch
from torch import Tensor

from posenc.analysis.probe_context import context_for
from posenc.attention import attend
from posenc.encoding import Encoding
from posenc.testing.backends import computed
from posenc.testing.fixtures import (
    attends,
    backends_for,
    copy_of,
    in_float64,
    qkv,
    require,
    require_close,
    when,
)

# Keys of a sum of gradients, where rounding that does not cancel adds up.
LONG = 512


@when(attends)
def check_backends_in_low_precision(encoding: Encoding) -> None:
    """Every backend agrees with float64 within the rounding of its inputs' dtype."""
    for dtype, bound in ((torch.float32, 1e-5), (torch.bfloat16, 3e-2), (torch.float16, 4e-3)):
        made = copy_of(encoding).to(dtype)
        exact = copy_of(encoding)
        exact.load_state_dict(made.state_dict())
        q, k, v = qkv(made, dtype=dtype)
        context = context_for(made, dtype=dtype)
        wide_q, wide_k, wide_v = (t.double() for t in (q, k, v))
        expected = attend(wide_q, wide_k, wide_v, exact, causal=True, context=in_float64(context))
        for name in backends_for(made):
            actual = attend(q, k, v, made, causal=True, context=context, backend=name)
            require_close(actual, expected, bound, f"{name} in {dtype}")


@when(attends)
def check_gradients_in_low_precision(encoding: Encoding) -> None:
    """Gradients that are sums of many tokens agree with float64's, as a whole, in every backend."""
    for dtype, bound in ((torch.float32, 5e-4), (torch.bfloat16, 6e-2)):
        low, exact = copy_of(encoding).to(dtype), copy_of(encoding)
        exact.load_state_dict(low.state_dict())
        q, k, v = qkv(low, LONG, dtype=dtype, batch=1)
        # Values of one sign, whose rounding has one too.
        drawn, context = (q, k, v + 1), context_for(low, LONG, dtype, batch=1)
        wide = tuple(tensor.double() for tensor in drawn)
        where = {"causal": True, "context": in_float64(context)}
        expected = computed([exact], wide, "reference", **where)
        names = ("output", "q", "k", "v", *(name for name, _ in low.named_parameters()))
        for backend in backends_for(low):
            results = computed([low], drawn, backend, causal=True, context=context)
            for name, result, wanted in zip(names, results, expected, strict=False):
                error = _relative(result, wanted)
                allowed = f"off by {error:.2g} of its size, at most {bound:.2g} is allowed"
                require(error <= bound, f"{backend} in {dtype}, gradient of {name}: {allowed}")


def _relative(actual: Tensor, expected: Tensor) -> float:
    """The size of the error by the size of what is expected, or by 1 for each of its elements."""
    size = expected.norm() + expected.numel() ** 0.5
    return ((actual.double() - expected).norm() / size).nan_to_num(nan=torch.inf).item()
