"""Random calls of attention: encodings with masks beside them, arrangements of tokens, dtypes."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import posenc as pe
from posenc.encoding import Encoding
from posenc.lowering import Part
from posenc.positions import Positions, Tokens
from posenc.testing.fixtures import Trial, attends
from posenc.torch_modes import FLOATS

ASKED = os.environ.get("POSENC_FUZZ")
# A few examples, always the same, or as many as were asked for.
fuzzed: Callable[[Any], Any] = settings(
    max_examples=int(ASKED or 40),
    derandomize=ASKED is None,
    suppress_health_check=list(HealthCheck),
)
# Rounding of the output and of sums of gradients, by the size of what is expected.
BOUNDS = {torch.float64: 1e-9, torch.float32: 3e-4, torch.bfloat16: 6e-2, torch.float16: 1e-2}
EXAMPLES = [
    (kind.name, number)
    for kind in pe.encodings().values()
    for number, example in enumerate(kind.examples())
    if attends(example)
]


@dataclass(frozen=True)
class Call:
    """One call: what attends, where its tokens are, and of which numbers."""

    encoding: Encoding
    masks: tuple[Part, ...]
    positions: Positions
    batch: int
    dtype: torch.dtype
    seed: int
    scale: float | None


@st.composite
def calls(draw: st.DrawFn) -> Call:
    name, number = draw(st.sampled_from(EXAMPLES))
    encoding = list(pe.encodings()[name].examples())[number]
    causal = encoding.tags.causal_only or draw(st.booleans())
    batch, length = draw(st.integers(1, 2)), draw(st.integers(1, 40))
    masks: list[Part] = []
    if draw(st.booleans()):
        masks.append(pe.SlidingWindow(draw(st.sampled_from([1, 3, 10, 64, 2**40]))))
    if masks and draw(st.booleans()):
        masks.append(pe.Sinks(draw(st.integers(1, 4))))
    if draw(st.booleans()):
        masks.append(pe.Chunked(draw(st.sampled_from([1, 7, 64]))))
    return Call(
        encoding,
        tuple(masks),
        draw(arrangements(batch, length, causal)),
        batch,
        draw(st.sampled_from(FLOATS)),
        draw(st.integers(0, 2**31)),
        draw(st.sampled_from([None, None, None, 0.5, 0.0, -1.0])),
    )


@st.composite
def arrangements(draw: st.DrawFn, batch: int, length: int, causal: bool) -> Positions:
    """Positions of at most `length` queries and `length` keys."""
    layout = draw(st.sampled_from(["plain", "last", "padded", "packed", "ids", "orders"]))
    if layout == "last":
        return Positions.build(draw(st.integers(1, length)), length, causal=causal)
    if layout == "padded":
        mask = torch.zeros(batch, length, dtype=torch.bool)
        for row in mask:
            row[draw(st.integers(0, length)) :] = True
            row[draw(st.integers(0, length)) :] = False
        return Positions.build(attention_mask=mask, causal=causal)
    if layout == "packed":
        cuts = sorted(draw(st.sets(st.integers(1, length), max_size=3)) | {length})
        lengths = [after - before for before, after in zip([0, *cuts], cuts, strict=False)]
        return Positions.build(lengths=lengths, causal=causal)
    if layout == "ids":
        ids = draw(st.lists(st.integers(0, 60), min_size=length, max_size=length))
        return Positions.build(ids=torch.tensor(ids), causal=causal)
    plain = Positions.build(length, causal=causal)
    if layout == "orders":
        start = draw(st.sampled_from([-(2**40), -100, -3, 5, 2**40]))
        counted = torch.arange(length)
        tokens = Tokens(counted, order=counted + start)
        plain = Positions(tokens, tokens, causal=causal, extent=length, unit_step=True)
    return plain


def trial_of(call: Call) -> Trial:
    """The encoding of this call, and numbers of it, small enough that no softmax is a step."""
    generator, positions = torch.Generator().manual_seed(call.seed), call.positions
    trial = Trial.of(call.encoding, positions.q_len, positions.k_len, call.dtype, call.batch)
    q, k, v = (
        torch.randn(x.shape, generator=generator, dtype=torch.float64).to(call.dtype)
        for x in trial.qkv
    )
    return replace(trial, q=q, k=k, v=v)
