"""Every backend that takes a random call agrees with the reference, forward and backward.

Short here; `make fuzz` runs as many examples as it is asked for, from a seed.
"""

import pytest
import torch
from hypothesis import given, note

from posenc.backends import BACKENDS
from posenc.errors import PosencError, UnsupportedError
from posenc.testing.backends import named, relative_error
from tests.fuzz.calls import BOUNDS, Call, calls, fuzzed, trial_of


@pytest.mark.unchecked
@fuzzed
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
