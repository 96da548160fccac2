"""Checks of the backends: each takes what it must, and gives what the equation gives.

In low precision each rounds its inputs, and sums what it rounded in float32.
"""

import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from posenc.attention import attend
from posenc.backends import BACKENDS
from posenc.encoding import Encoding
from posenc.encodings.sinks import Sinks
from posenc.encodings.sliding_window import SlidingWindow
from posenc.errors import UnsupportedError
from posenc.lowering import Part
from posenc.native.library import LIBRARY
from posenc.positions import Positions, Tokens
from posenc.rotation import growth_held
from posenc.terms import (
    ChunkZones,
    CountTable,
    DenseBias,
    DistanceTable,
    GatherTable,
    GridTable,
    Householder,
    Network,
    Rotate,
    SinkLogit,
    Slope,
    Term,
    ValueTable,
    Zones,
)
from posenc.testing.fixtures import (
    LENGTH,
    Trial,
    attends,
    backends_for,
    causalities,
    hides,
    repeated,
    require,
    require_close,
    terms_of,
    when,
)
from posenc.testing.masks import arrangements

# Terms that a backend may leave to others, on the CPU; whoever is not named here must take all.
LEAVES: dict[str, tuple[type[Term], ...]] = {
    "native": (ChunkZones, DenseBias, Householder),
    "sdpa": (ChunkZones, CountTable, Householder, SinkLogit, ValueTable, Zones),
    "flex": (
        ChunkZones,
        CountTable,
        DenseBias,
        GatherTable,
        GridTable,
        Householder,
        Network,
        ValueTable,
        Zones,
    ),
}
# Backends without factors that grow with position beyond what float32 holds.
UNSCALED = ("native", "sdpa", "flex")
READ_DISTANCES = (DistanceTable, Slope, GatherTable, ValueTable, Network)
# Keys of a sum of gradients, where rounding that does not cancel adds up.
LONG = 512
OUTPUTS = ("output", "gradient of q", "gradient of k", "gradient of v")


def must_take(name: str, terms: tuple[Term, ...], aligned: bool = True) -> bool:
    """Whether a backend has to compute these terms on this machine.

    aligned  positions are as far apart as orders; else distances do not run along diagonals, which
             native may leave to others
    """
    if name == "triton" or (name == "native" and isinstance(LIBRARY, str)):
        return False
    if any(isinstance(term, LEAVES.get(name, ())) for term in terms):
        return False
    inside = any(isinstance(t, GatherTable) or getattr(t, "inside", False) for t in terms)
    if name == "native" and inside and any(isinstance(t, CountTable) for t in terms):
        return False
    scaled = any(isinstance(t, Rotate) and t.grows and growth_held(t) is None for t in terms)
    if scaled and name in UNSCALED:
        return False
    return aligned or name != "native" or not any(isinstance(t, READ_DISTANCES) for t in terms)


def computed(
    parts: Sequence[Part], drawn: tuple[Tensor, ...], backend: str, **where: Any
) -> list[Tensor]:
    """The output, and the gradients of a fixed sum of it by the inputs and all parameters.

    FlexAttention has no backward pass on CPUs: of it, the output alone.
    """
    if backend == "flex":
        with torch.no_grad():
            q, k, v = drawn
            return [attend(q, k, v, parts, backend=backend, **where)]
    leaves = [tensor.detach().requires_grad_() for tensor in drawn]
    q, k, v = leaves
    out = attend(q, k, v, parts, backend=backend, **where)
    encodings = (part for part in parts if isinstance(part, Encoding))
    leaves += [parameter for encoding in encodings for parameter in encoding.parameters()]
    generator = torch.Generator().manual_seed(19)
    weights = torch.randn(out.shape, generator=generator, dtype=torch.float64).to(out.dtype)
    grads = torch.autograd.grad(out, leaves, weights, allow_unused=True)
    pairs = zip(leaves, grads, strict=True)
    return [out, *(torch.zeros_like(leaf) if grad is None else grad for leaf, grad in pairs)]


def named(trial: Trial, backend: str, *beside: Part, **where: Any) -> dict[str, Tensor]:
    """What `computed` gives for a trial, by name."""
    parts = [trial.encoding, *beside]
    results = computed(parts, trial.qkv, backend, context=trial.context, **where)
    names = [*OUTPUTS, *(f"gradient of {name}" for name, _ in trial.encoding.named_parameters())]
    return dict(zip(names, results, strict=False))


def require_same(
    trial: Trial,
    what: str,
    *beside: Part,
    aligned: bool = True,
    expected: dict[str, Tensor] | None = None,
    **where: Any,
) -> None:
    """Every backend gives what the reference gives, forward and backward, or refuses where it may.

    beside    what stands beside the encoding
    expected  in place of what the reference gives
    """
    expected = named(trial, "reference", *beside, **where) if expected is None else expected
    for backend in BACKENDS:
        # What it may refuse, it may not compute wrongly.
        must = must_take(backend, terms_of(trial.encoding), aligned)
        with suppress(*[] if must else [UnsupportedError]):
            for name, result in named(trial, backend, *beside, **where).items():
                require_close(result, expected[name], 1e-9, f"{backend}, {what}, {name}")


@when(attends)
def check_backends(encoding: Encoding) -> None:
    """Every backend takes what it must and equals the reference, forward and backward."""
    for arrangement in arrangements(encoding):
        positions, aligned = arrangement.positions, arrangement.aligned
        trial = Trial.of(encoding, positions.q_len, LENGTH)
        require_same(trial, str(arrangement), aligned=aligned, positions=positions)


@when(lambda e: attends(e) and not hides(e))
def check_masks_in_backends(encoding: Encoding) -> None:
    """Beside windows and sinks every backend gives what the reference gives."""
    masks = [SlidingWindow(5), SlidingWindow(3), Sinks(1)]
    for arrangement in arrangements(encoding):
        if arrangement.name in ("far orders", "packed and padded"):
            where = {"positions": arrangement.positions}
            require_same(Trial.of(encoding), str(arrangement), *masks, **where)


@when(attends)
def check_negative_orders(encoding: Encoding) -> None:
    """Orders below zero are orders like others: causality and windows read differences alone."""
    tokens = Tokens(torch.arange(LENGTH), order=torch.arange(LENGTH) - 100)
    for causal in causalities(encoding):
        plain = Positions.build(LENGTH, causal=causal)
        positions = replace(plain, queries=tokens, keys=tokens)
        require_same(Trial.of(encoding), f"causal={causal}", positions=positions)


@when(lambda e: attends(e) and not hides(e))
def check_wide_windows(encoding: Encoding) -> None:
    """A window wider than the input hides nothing, however wide it is."""
    trial = Trial.of(encoding)
    expected = named(trial, "reference", causal=True)
    for width in (LENGTH, 2**31 - 1, 2**31, 2**62, sys.maxsize):
        window = SlidingWindow(width)
        require_same(trial, f"{window!r}", window, expected=expected, causal=True)


@when(attends)
def check_scales(encoding: Encoding) -> None:
    """A scale of zero or below is a scale like others, in every backend."""
    for scale in (0.0, -0.5):
        require_same(Trial.of(encoding), f"scale={scale}", causal=True, scale=scale)


@when(attends)
def check_grouped_heads(encoding: Encoding) -> None:
    """Query heads get what they would get from keys of their own, however many share a key head."""
    trial = Trial.of(encoding)
    heads = trial.q.shape[1]
    for count in sorted({1, trial.k.shape[1], heads}):
        shared = replace(trial, k=trial.q.flip(2)[:, :count], v=trial.q.cos()[:, :count])
        alone = replace(trial, k=repeated(shared.k, heads), v=repeated(shared.v, heads))
        expected = alone.attend(causal=True, backend="reference")
        _require_in_backends(shared, expected, f"{count} of {heads} heads", causal=True)


@when(attends)
def check_short_queries(encoding: Encoding) -> None:
    """Fewer queries than keys are the last ones: their rows equal those of the full square."""
    trial = Trial.of(encoding)
    for causal in causalities(encoding):
        full = trial.attend(causal=causal, backend="reference")
        for count in (1, 4):
            last, expected = replace(trial, q=trial.q[:, :, -count:]), full[:, :, -count:]
            told = Positions.build(count, LENGTH, causal=causal)
            for where in ({"causal": causal}, {"positions": told}):
                what = f"the last {count}, causal={causal}, by {', '.join(where)}"
                _require_in_backends(last, expected, what, **where)


@when(attends)
def check_strides(encoding: Encoding) -> None:
    """Tensors that are not contiguous give what their contiguous copies give."""
    trial = Trial.of(encoding)
    q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in trial.qkv)
    expected = trial.attend(causal=True, backend="reference")
    _require_in_backends(replace(trial, q=q, k=k, v=v), expected, "tokens first", causal=True)


def _require_in_backends(trial: Trial, expected: Tensor, what: str, **where: Any) -> None:
    for backend in backends_for(trial.encoding):
        actual = trial.attend(backend=backend, **where)
        require_close(actual, expected, 1e-9, f"{backend}, {what}")


@when(attends)
def check_no_fallback(encoding: Encoding) -> None:
    """The reference computes it, and a backend asked for by name raises rather than be replaced."""
    trial, able = Trial.of(encoding), backends_for(encoding)
    require("reference" in able, f"the reference refuses; able are {able}")
    for backend in sorted(set(BACKENDS) - set(able)):
        try:
            trial.attend(causal=True, backend=backend)
        except UnsupportedError:
            continue
        require(False, f"backend {backend!r} refuses this encoding, but answered")


@when(attends)
def check_backends_in_low_precision(encoding: Encoding) -> None:
    """Every backend agrees with float64 within the rounding of its inputs' dtype."""
    for dtype, bound in ((torch.float32, 1e-5), (torch.bfloat16, 3e-2), (torch.float16, 4e-3)):
        trial = Trial.of(encoding, dtype=dtype)
        expected = trial.to(torch.float64).attend(causal=True)
        for backend in backends_for(encoding):
            actual = trial.attend(causal=True, backend=backend)
            require_close(actual, expected, bound, f"{backend} in {dtype}")


@when(attends)
def check_gradients_in_low_precision(encoding: Encoding) -> None:
    """Gradients that are sums of many tokens agree with float64's, as a whole, in every backend."""
    for dtype, bound in ((torch.float32, 5e-4), (torch.bfloat16, 6e-2), (torch.float16, 1e-2)):
        trial = Trial.of(encoding, LONG, dtype=dtype, batch=1)
        # Values of one sign, whose rounding has one too.
        trial = replace(trial, v=trial.v + 1)
        expected = named(trial.to(torch.float64), "reference", causal=True)
        for backend in backends_for(encoding):
            for name, result in named(trial, backend, causal=True).items():
                error = relative_error(result, expected[name])
                allowed = f"off by {error:.2g} of its size, at most {bound:.2g} is allowed"
                require(error <= bound, f"{backend} in {dtype}, {name}: {allowed}")


def relative_error(actual: Tensor, expected: Tensor) -> float:
    """The size of the error by the size of what is expected, or by 1 for each of its elements."""
    size = expected.norm() + expected.numel() ** 0.5
    return ((actual.double() - expected).norm() / size).nan_to_num(nan=torch.inf).item()
