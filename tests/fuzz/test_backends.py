"""Every backend that takes a random call agrees with the reference, forward and backward.

Short here; `make fuzz` runs as many examples as it is asked for, from a seed.
"""

import os
from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, given, note, settings

from posenc.backends import BACKENDS
from posenc.errors import PosencError, UnsupportedError
from posenc.testing.backends import named, relative_error
from posenc.testing.fixtures import Trial
from tests.fuzz.calls import Call, calls

ASKED = os.environ.get("POSENC_FUZZ")
# Rounding of the output and of sums of gradients, by the size of what is expected.
BOUNDS = {torch.float64: 1e-9, torch.float32: 3e-4, torch.bfloat16: 6e-2, torch.float16: 1e-2}


@pytest.mark.unchecked
@settings(
    max_examples=int(ASKED or 40),
    derandomize=ASKED is None,
    suppress_health_check=list(HealthCheck),
)
@given(calls())
def test_every_backend_agrees_with_the_reference(call: Call) -> None:
    trial = trial_of(call)
    where = {"positions": call.positions, "scale": call.scale}
    try:
        expected = named(trial.to(torch.float64), "reference", *call.masks, **where)
    except PosencError:
        return
    for backend in BACKENDS:
        try:
            results = named(trial, backend, *call.masks, **where)
        except UnsupportedError:
            continue
        note(backend)
        for name, result in results.items():
            assert result.shape == expected[name].shape
            assert relative_error(result, expected[name]) <= BOUNDS[call.dtype], (backend, call)


def trial_of(call: Call) -> Trial:
    """The encoding of this call, and numbers of it, small enough that no softmax is a step."""
    generator, positions = torch.Generator().manual_seed(call.seed), call.positions
    trial = Trial.of(call.encoding, positions.q_len, positions.k_len, call.dtype, call.batch)
    q, k, v = (
        torch.randn(x.shape, generator=generator, dtype=torch.float64).to(call.dtype)
        for x in trial.qkv
    )
    return replace(trial, q=q, k=k, v=v)
