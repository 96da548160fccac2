"""Every backend that takes a random call agrees with the reference, forward and backward.

Short here; `make fuzz` runs as many examples as it is asked for, from a seed.
"""

import os
from collections.abc import Sequence

import pytest
import torch
from hypothesis import HealthCheck, given, note, settings
from torch import Tensor

from posenc.analysis.probe_context import context_for
from posenc.backends import BACKENDS
from posenc.errors import PosencError, UnsupportedError
from posenc.testing.backends import computed
from posenc.testing.fixtures import copy_of, in_float64, qkv
from tests.fuzz.calls import Call, calls

ASKED = os.environ.get("POSENC_FUZZ")
# Rounding of the output and of sums of gradients, by the size of what is expected.
BOUNDS = {torch.float64: 1e-9, torch.float32: 3e-4, torch.bfloat16: 6e-2}


@pytest.mark.unchecked
@settings(
    max_examples=int(ASKED or 40),
    derandomize=ASKED is None,
    suppress_health_check=list(HealthCheck),
)
@given(calls())
def test_every_backend_agrees_with_the_reference(call: Call) -> None:
    low, exact = copy_of(call.encoding).to(call.dtype), copy_of(call.encoding)
    exact.load_state_dict(low.state_dict())
    positions = call.positions
    drawn = inputs(call)
    context = context_for(low, positions.k_len, call.dtype, call.batch)
    where = {"positions": positions, "scale": call.scale}
    try:
        expected = computed(
            [exact, *call.masks],
            tuple(tensor.double() for tensor in drawn),
            "reference",
            context=in_float64(context),
            **where,
        )
    except PosencError:
        return
    for backend in BACKENDS:
        try:
            results = computed([low, *call.masks], drawn, backend, context=context, **where)
        except UnsupportedError:
            continue
        note(backend)
        for result, wanted in zip(results, expected, strict=False):
            assert relative(result, wanted) <= BOUNDS[call.dtype], (backend, call)


def inputs(call: Call) -> tuple[Tensor, Tensor, Tensor]:
    """Numbers of this call, small enough that no softmax is a step."""
    generator = torch.Generator().manual_seed(call.seed)
    shapes: Sequence[Tensor] = qkv(
        call.encoding, call.positions.q_len, call.positions.k_len, batch=call.batch
    )
    q, k, v = (
        torch.randn(x.shape, generator=generator, dtype=torch.float64).to(call.dtype)
        for x in shapes
    )
    return q, k, v


def relative(actual: Tensor, expected: Tensor) -> float:
    """The size of the error by that of what is expected, or by 1 for each of its elements."""
    assert actual.shape == expected.shape
    size = expected.norm() + expected.numel() ** 0.5
    return ((actual.double() - expected).norm() / size).nan_to_num(nan=torch.inf).item()
