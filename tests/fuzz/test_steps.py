"""Random lives of a cache: the short way of a step and the long one give and leave the same.

Short here; `make fuzz` runs as many examples as it is asked for, from a seed.
"""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import posenc as pe
from posenc import attention
from posenc.caches.checks import parts_of
from posenc.encoding import Encoding
from posenc.errors import PosencError
from posenc.testing.fixtures import attends
from tests.fuzz.calls import fuzzed
from tests.support.steps import DIM, HEADS, Steps, same

BOUNDS = {torch.float64: 1e-12, torch.float32: 2e-6, torch.bfloat16: 2e-2, torch.float16: 2e-3}


def encodings() -> list[Any]:
    """What fits a head of these sizes and reads no more than positions."""
    found: list[Any] = [
        None,
        [pe.Rotary(DIM), pe.ALiBi(HEADS)],
        [pe.Rotary(DIM), pe.SlidingWindow(20)],
        [pe.KERPLE(HEADS), pe.SlidingWindow(5), pe.Sinks(2)],
    ]
    for kind in pe.encodings().values():
        sizes = {"model_dim": DIM * HEADS, "heads": HEADS, "head_dim": DIM}
        encoding: Encoding = kind.for_model(**sizes, max_length=512, train_length=64, causal=True)
        if attends(encoding) and not encoding.tags.needs_context and encoding.axes == 1:
            found.append(encoding)
    return [*found, pe.ALiBi(HEADS, inside=True), pe.Rotary(DIM, scaling=pe.YaRN(4.0, 16))]


# What happens next, and by how much.
ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(
            ["step"] * 5 + ["lowered", "several", "truncate", "reorder", "reset", "learn", "scale"]
        ),
        st.integers(0, 90),
    ),
    min_size=1,
    max_size=6,
)


def lived(
    encoding: Any, cache: pe.Cache, dtype: torch.dtype, shared: int, padding: Any, actions: Any
) -> Any:
    """The outputs of these calls, the errors among them, and what is left of the cache."""
    steps = Steps(encoding, cache, dtype, shared, padding)
    outs: list[Any] = []
    for action, count in [("prompt", 4), *actions]:
        try:
            if action == "truncate":
                cache.truncate(min(count, len(cache)))
            elif action == "reorder":
                cache.reorder(torch.tensor([count % 2, 1]))
            elif action == "reset":
                cache.reset()
            elif action == "learn":
                for part in parts_of(encoding):
                    for x in part.parameters():
                        x.mul_(1.0 + count / 100)
            elif action == "prompt":
                steps.prompt(count)
            elif action == "several":
                outs.append(attention.attend(
                    *steps.tokens(1 + count % 5), encoding, causal=True, cache=cache))  # fmt: skip
            elif action == "lowered":
                placed = cache.place(1, None, encoding)
                wide = torch.float64 if dtype == torch.float64 else torch.float32
                terms = pe.lower(encoding, placed, dtype=wide, keys_prerotated=True)
                outs.append(attention.attend(*steps.tokens(1), terms, cache=cache))
            else:
                scale = {"scale": 0.3} if action == "scale" else {}
                outs += [steps.step(**scale) for _ in range(count if action == "step" else 2)]
        except PosencError as error:
            outs.append(type(error).__name__)
    return steps, outs


@pytest.mark.unchecked
@fuzzed
@given(
    st.integers(0, 1000),
    st.sampled_from(list(BOUNDS)),
    st.sampled_from([1, 2, 4]),
    st.sampled_from(
        [
            pe.Cache,
            lambda: pe.Cache(length=400),
            lambda: pe.Cache("raw"),
            lambda: pe.StaticCache(150),
        ]
    ),
    st.sampled_from([None, None, (0, 0), (2, 0), (1, 4)]),
    ACTIONS,
)
def test_the_short_way_is_the_long_way(
    which: int,
    dtype: torch.dtype,
    shared: int,
    make: Any,
    padding: Any,
    actions: list[tuple[str, int]],
) -> None:
    lives = []
    short = attention.plain_step
    for way in (short, lambda *_: None):
        attention.plain_step = way
        torch.manual_seed(which)
        every = encodings()
        try:
            with torch.no_grad():
                lives.append(
                    lived(every[which % len(every)], make(), dtype, shared, padding, actions)
                )
        finally:
            attention.plain_step = short
    (one, actual), (other, expected) = lives
    assert len(actual) == len(expected)
    for a, b in zip(actual, expected, strict=True):
        if isinstance(b, str):
            assert a == b
        else:
            torch.testing.assert_close(a, b, rtol=BOUNDS[dtype], atol=BOUNDS[dtype])
    assert len(one.cache) == len(other.cache)
    if len(one.cache):
        same(one, other)
