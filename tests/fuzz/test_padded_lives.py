"""Random prompts with padding, and what is decoded behind them: each row as it would be alone.

Short here; `make fuzz` runs as many examples as it is asked for, from a seed.
"""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import posenc as pe
from posenc.encoding import Encoding
from posenc.joint_payload import keeps
from posenc.testing.fixtures import attends
from tests.fuzz.calls import fuzzed
from tests.support.padded_steps import DIM, HEADS, WIDTH, errors, padded

PROMPT, STEPS = 9, 6


def encodings() -> list[Encoding]:
    """What fits a head of these sizes, what reads the layer's input too."""
    found: list[Encoding] = []
    for kind in pe.encodings().values():
        sizes = {"model_dim": WIDTH, "heads": HEADS, "head_dim": DIM}
        encoding: Encoding = kind.for_model(**sizes, max_length=64, train_length=64, causal=True)
        fixed = encoding.axes == 1 and not encoding.tags.length_dependent
        # Of what reads a context, what makes a payload of the layer's input.
        told = keeps(encoding) or not encoding.tags.needs_context
        if attends(encoding) and fixed and told and encoding.family != "mask":
            # Those that keep a payload are a few among many.
            found += [encoding] * (6 if keeps(encoding) else 1)
    return found


@st.composite
def caches(draw: st.DrawFn) -> tuple[pe.Cache, list[Any]]:
    """A cache, and the masks that go with it."""
    policy = draw(st.sampled_from(["rotated", "raw"]))
    kind = draw(st.sampled_from(["all", "slots", "window", "window", "chunk", "chunk"]))
    if kind == "all":
        return pe.Cache(policy), []
    if kind == "slots":
        return pe.StaticCache(PROMPT + STEPS + draw(st.integers(0, 3)), policy), []
    window, chunk = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    if kind == "chunk":
        both = draw(st.booleans())
        masks = [pe.Chunked(chunk), *([pe.SlidingWindow(window)] if both else [])]
        return pe.RollingCache(window if both else None, 0, policy, chunk=chunk), masks
    sinks = draw(st.integers(0, 3))
    masks = [pe.SlidingWindow(window), *([pe.Sinks(sinks)] if sinks else [])]
    return pe.RollingCache(window, sinks, policy), masks


@pytest.mark.unchecked
@fuzzed
@given(
    st.integers(0, 1000),
    caches(),
    # From which column each row is real, and up to which; some are padding alone.
    st.lists(
        st.tuples(st.integers(0, PROMPT), st.integers(0, PROMPT)).map(sorted).map(tuple),
        min_size=1,
        max_size=3,
    ),
    st.integers(1, 3),
)
def test_each_row_goes_on_as_if_it_were_alone(
    which: int, kept: tuple[pe.Cache, list[Any]], rows: list[Any], sized: int
) -> None:
    torch.manual_seed(which)
    (cache, masks), every = kept, encodings()
    parts = [every[which % len(every)].double(), *masks]
    try:
        found = errors(parts, cache, padded(*rows, count=PROMPT), STEPS, sized)
    except pe.CacheError:
        # Some keep what such a cache does not.
        return
    assert max(found) < 1e-10
