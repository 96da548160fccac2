"""Random layers that share lowered terms: what one left never changes what a later one gives.

Short here; `make fuzz` runs as many examples as it is asked for, from a seed.
"""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import posenc as pe
from posenc import attention
from posenc.errors import PosencError
from posenc.testing.backends import relative_error
from posenc.torch_modes import named
from tests.fuzz.calls import BOUNDS, Call, calls, fuzzed, trial_of
from tests.support.layers import WAYS


@dataclass(frozen=True)
class Layer:
    """One layer: what is done to the terms before, and how its tensors lie.

    grows   by how much all that the terms hold is multiplied before it
    ways    of queries, keys and values, by their number in WAYS
    narrow  whether it has one item of the batch alone, and fewer dimensions of values
    """

    grows: float
    ways: tuple[int, int, int]
    narrow: bool
    learns: bool
    threads: int
    scale: float | None


SOME = st.sampled_from
LAYERS = st.lists(
    st.builds(
        Layer,
        SOME([1.0, 1.0, 1.0, -0.5, 1.5]),
        st.tuples(*[SOME([0, 0, 0, 1, 2, 3])] * 3),
        SOME([False, False, False, True]),
        SOME([False, False, False, True]),
        SOME([1, 1, 2]),
        SOME([None, None, None, 0.5]),
    ),
    min_size=2,
    max_size=6,
)


def lived(call: Call, layers: list[Layer]) -> list[Any]:
    """What each layer gives, or the name of its error, and what the equation gives.

    That is asked until the terms are written to; then the layer is asked again.
    """
    trial = trial_of(call)
    trial.encoding.requires_grad_(False)
    found: list[Any] = []
    # As many in each life: sums of matrices that are projected go by threads.
    torch.set_num_threads(1)
    parts, where = [trial.encoding, *call.masks], call.positions
    try:
        shared = pe.lower(parts, where, context=trial.context, dtype=call.dtype)
    except PosencError:
        # Such as chunks of two widths, of which nothing is left for a layer.
        return found
    positions, written = shared.positions, False
    placed = {id(x) for part in (positions.queries, positions.keys) for x in named(part).values()}
    for layer in layers:
        if layer.grows != 1.0:
            written = True
            for x in shared.form.tensors:
                if x.is_floating_point() and 0 not in x.stride() and id(x) not in placed:
                    x.mul_(layer.grows)
        tensors = [WAYS[way](x) for way, x in zip(layer.ways, trial.qkv, strict=True)]
        if layer.narrow:
            q, k, v = (x[:1] for x in tensors)
            tensors = [q, k, v[..., :3]]
        torch.set_num_threads(layer.threads)
        # The equation reads the terms, of which the form holds sums made when they were lowered.
        for backend in ("auto", "auto" if written else "reference"):
            leaves = [x.detach().requires_grad_(layer.learns) for x in tensors]
            with torch.set_grad_enabled(layer.learns):
                try:
                    out = attention.attend(*leaves, shared, scale=layer.scale, backend=backend)
                except PosencError as error:
                    found.append(type(error).__name__)
                    continue
            grads: Any = torch.autograd.grad(out.square().sum(), leaves) if layer.learns else ()
            found.append([out.detach(), *grads])
    return found


@pytest.mark.unchecked
@fuzzed
@given(calls(), LAYERS)
def test_a_layer_gives_what_it_gives_alone(call: Call, layers: list[Layer]) -> None:
    lives, threads = [], torch.get_num_threads()
    short = attention.as_before
    try:
        for way in (short, lambda *_: None):
            attention.as_before = way
            lives.append(lived(call, layers))
    finally:
        attention.as_before = short
        torch.set_num_threads(threads)
    actual, alone = lives
    for one, other in zip(actual, alone, strict=True):
        assert same(one, other)
    for one, expected in zip(actual[::2], actual[1::2], strict=True):
        if isinstance(expected, str):
            assert one == expected
        else:
            for a, b in zip(one, expected, strict=True):
                assert relative_error(a, b) <= BOUNDS[call.dtype]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
