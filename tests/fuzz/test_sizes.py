"""Random heads, widths and lengths beyond a tile: every backend gives what the equation gives.

Short here; `make fuzz` runs as many examples as it is asked for, from a seed.
"""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import posenc as pe
from posenc.encoding import Encoding
from posenc.errors import PosencError, UnsupportedError
from posenc.lowering import Part
from posenc.positions import Positions
from posenc.testing.fixtures import attends, copy_of
from posenc.torch_modes import FLOATS
from tests.fuzz.calls import ASKED, BOUNDS, arrangements, fuzzed
from tests.support.layers import WAYS

SOME = st.sampled_from
WIDTHS = [4, 8, 24, 40, 64, 72, 128, 160, 256]
# Beyond two tiles of the C kernels, where there is time.
LONGEST = 330 if ASKED else 140


@dataclass(frozen=True)
class Sized:
    """One call: heads that share keys, how tensors lie, and which of q, k, v and terms learn."""

    parts: tuple[Part, ...]
    positions: Positions
    shapes: tuple[tuple[int, ...], ...]
    ways: tuple[int, int, int]
    learns: tuple[bool, bool, bool, bool]
    dtype: torch.dtype
    threads: int
    scale: float | None
    seed: int


@st.composite
def sized(draw: st.DrawFn) -> Sized:
    batch, heads, dim = draw(SOME([1, 2])), draw(SOME([1, 2, 3, 4, 6])), draw(SOME(WIDTHS))
    groups = draw(SOME([n for n in range(1, heads + 1) if heads % n == 0]))
    length, causal = draw(st.integers(1, LONGEST)), draw(st.booleans())
    parts: list[Part] = []
    for kind in draw(st.lists(SOME(list(pe.encodings().values())), min_size=1, max_size=2)):
        sizes = {"model_dim": dim * heads, "heads": heads, "head_dim": dim}
        try:
            encoding = kind.for_model(
                **sizes, max_length=2 * LONGEST, train_length=LONGEST, causal=causal
            )
        except PosencError:
            # Such as axes that no head of these dimensions has.
            continue
        tags = encoding.tags
        asks = tags.needs_context or encoding.axes > 1 or (tags.causal_only and not causal)
        if attends(encoding) and not asks:
            parts.append(copy_of(encoding))
    if draw(st.booleans()):
        parts.append(pe.SlidingWindow(draw(SOME([2, 17, 64, 100, 250]))))
        parts += [pe.Sinks(draw(SOME([1, 70])))] if draw(st.booleans()) else []
    positions = draw(arrangements(batch, length, causal))
    turns = any(isinstance(part, pe.RotaryValues) for part in parts)
    value_dim = dim if turns else draw(SOME([dim, 4, 40]))
    rows = [(heads, positions.q_len, dim)]
    rows += [(groups, positions.k_len, width) for width in (dim, value_dim)]
    return Sized(
        tuple(parts),
        positions,
        tuple((batch, *row) for row in rows),
        draw(st.tuples(*[SOME(range(len(WAYS)))] * 3)),
        draw(st.tuples(*[st.booleans()] * 4)),
        draw(SOME(FLOATS)),
        draw(SOME([1, 2])),
        draw(SOME([None, None, 0.5, 0.0, -1.0])),
        draw(st.integers(0, 2**31)),
    )


def computed(call: Sized, backend: str, dtype: torch.dtype) -> list[Tensor]:
    """The output, and the gradients of what learns."""
    generator = torch.Generator().manual_seed(call.seed)
    leaves: list[Tensor] = []
    for shape, way, learns in zip(call.shapes, call.ways, call.learns, strict=False):
        x = torch.randn(shape, generator=generator, dtype=torch.float64) * shape[-1] ** -0.25
        leaves.append(WAYS[way](x.to(call.dtype).to(dtype)).detach().requires_grad_(learns))
    encodings: list[Any] = [part for part in call.parts if isinstance(part, Encoding)]
    learned = [x for encoding in encodings for x in encoding.to(dtype).parameters()]
    for x in learned:
        x.requires_grad_(call.learns[3])
    q, k, v = leaves
    out = pe.attend(
        q, k, v, list(call.parts), positions=call.positions, scale=call.scale, backend=backend
    )
    if not out.requires_grad:
        return [out]
    asked = [x for x in [*leaves, *learned] if x.requires_grad]
    weights = torch.randn(out.shape, generator=generator, dtype=torch.float64).to(out.dtype)
    grads = torch.autograd.grad(out, asked, weights, materialize_grads=True, allow_unused=True)
    return [out.detach(), *grads]


@pytest.mark.unchecked
@fuzzed
@given(sized())
def test_every_size_is_the_equation(call: Sized) -> None:
    for part in call.parts:
        if isinstance(part, Encoding):
            part.to(call.dtype)
    threads = torch.get_num_threads()
    torch.set_num_threads(call.threads)
    try:
        compare(call)
    finally:
        torch.set_num_threads(threads)


def compare(call: Sized) -> None:
    try:
        exact = computed(call, "reference", torch.float64)
    except PosencError:
        # Such as two rotations, or a table that does not reach so far.
        return
    # Gradients that cancel are as exact as the largest of those beside them.
    size = max(1.0, *(float(x.abs().max()) for x in exact if x.numel()))
    for backend in ("native", "sdpa", "blocked", "auto"):
        try:
            found = computed(call, backend, call.dtype)
        except UnsupportedError:
            continue
        for one, wanted in zip(found, exact, strict=True):
            assert one.shape == wanted.shape
            error = float((one.double() - wanted).abs().max()) if one.numel() else 0.0
            assert error <= BOUNDS[call.dtype] * size, (backend, error, call)
