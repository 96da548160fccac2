"""Orders that are negative or far: every rule of masks holds for any of them."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import posenc as pe
from posenc import Positions, SettingError, Tokens, attend
from posenc.mask_rules import Chunk, MaskRule, Prefix, Sink, Window
from posenc.native.library import LIBRARY
from posenc.terms import Mask

FAR = 2**60
NATIVE = pytest.mark.skipif(isinstance(LIBRARY, str), reason=str(LIBRARY))
BACKENDS = ["auto", "reference", "sdpa", "blocked", pytest.param("native", marks=NATIVE)]
# Where orders begin: behind zero, across it, far on either side.
STARTS = st.sampled_from([-FAR, -100, -7, -1, 0, 5, FAR])


@st.composite
def scenes(draw: st.DrawFn) -> dict[str, Any]:
    """Orders of keys in one or two rows, which keys are asked from, and rules."""
    keys = draw(st.integers(1, 12))
    steps = st.lists(st.integers(1, 3), min_size=keys, max_size=keys)
    rows = [
        [draw(STARTS) + sum(row[:n]) for n in range(keys)]
        for row in draw(st.lists(steps, min_size=1, max_size=2))
    ]
    shuffled = draw(st.permutations(range(keys)))
    return {
        "orders": [[row[n] for n in shuffled] for row in rows],
        "queries": draw(st.lists(st.sampled_from(range(keys)), min_size=1, max_size=keys)),
        "causal": draw(st.booleans()),
        "width": draw(st.none() | st.integers(1, 6) | st.just(sys.maxsize)),
        "sinks": draw(st.integers(0, 3)),
        "prefix": draw(st.integers(0, 3)),
        "chunk": draw(st.none() | st.integers(1, 6) | st.just(sys.maxsize)),
    }


def sees(q: int, k: int, scene: dict[str, Any]) -> bool:
    """Whether a query of order q sees a key of order k."""
    past = not scene["causal"] or k <= q or (scene["prefix"] > 0 and k < scene["prefix"])
    width = scene["width"]
    near = width is None or abs(q - k) < width or (scene["sinks"] > 0 and k < scene["sinks"])
    chunk = scene["chunk"]
    return past and near and (chunk is None or q // chunk == k // chunk)


def by_loop(q: Tensor, k: Tensor, v: Tensor, scene: dict[str, Any]) -> Tensor:
    out = torch.zeros(*q.shape[:3], v.shape[-1], dtype=torch.float64)
    for b in range(q.shape[0]):
        orders = scene["orders"][b]
        for i, place in enumerate(scene["queries"]):
            seen = [j for j, order in enumerate(orders) if sees(orders[place], order, scene)]
            if seen:
                scores = q[b, :, i].unsqueeze(1) @ k[b][:, seen].mT / q.shape[-1] ** 0.5
                out[b, :, i] = (scores.softmax(-1) @ v[b][:, seen])[:, 0]
    return out


@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=60)
@given(scene=scenes())
def test_every_order_is_as_good_as_another(backend: str, scene: dict[str, Any]) -> None:
    order = torch.tensor(scene["orders"])
    queries = Tokens(order[:, scene["queries"]], order=order[:, scene["queries"]])
    positions = Positions(queries, Tokens(order, order=order), scene["causal"])
    rules: list[MaskRule] = [Window(scene["width"])] if scene["width"] is not None else []
    # A count of 0 is no sink and no prefix, said or not.
    rules += [Sink(scene["sinks"]), Prefix(scene["prefix"])]
    rules += [Chunk(scene["chunk"])] if scene["chunk"] else []
    draw = torch.Generator().manual_seed(0)
    k, v = (torch.randn(len(order), 2, order.shape[1], 4, generator=draw).double() for _ in "kv")
    q = torch.randn(len(order), 2, queries.count, 4, generator=draw).double()
    parts = [Mask(rule) for rule in rules]
    found = attend(q, k, v, parts, positions=positions, backend=backend)
    torch.testing.assert_close(found, by_loop(q, k, v, scene), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("backend", BACKENDS)
def test_tokens_before_zero_see_no_future(backend: str) -> None:
    order = torch.arange(100) - 100
    tokens = Tokens(order, order=order)
    positions = Positions(tokens, tokens, causal=True, extent=101, unit_step=True)
    q = torch.randn(1, 2, 100, 8, generator=torch.Generator().manual_seed(1))
    for masks in ([], [pe.SlidingWindow(5)]):
        parts = [pe.ALiBi(2), *masks]
        expected = attend(q, q, q, parts, causal=True, backend="reference")
        found = attend(q, q, q, parts, positions=positions, backend=backend)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("width", [sys.maxsize, 2**62, 2**64])
def test_a_window_wider_than_any_sequence_hides_nothing(backend: str, width: int) -> None:
    q = torch.randn(1, 2, 70, 8, generator=torch.Generator().manual_seed(2))
    found = attend(q, q, q, pe.SlidingWindow(width), causal=True, backend=backend)
    expected = attend(q, q, q, causal=True, backend="reference")
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


REFUSED: dict[str, Callable[[], object]] = {
    r"Window\(width=-3\)": lambda: Window(-3),
    r"Window\(width=0\)": lambda: Window(0),
    r"Window\(width=2.5\)": lambda: Window(2.5),
    r"Chunk\(width=0\)": lambda: Chunk(0),
    r"Sink\(count=-1\)": lambda: Sink(-1),
    r"Prefix\(count=1.0\)": lambda: Prefix(1.0),
    r"Prefix\(count=True\)": lambda: Prefix(True),
    r"SlidingWindow\(width=2.5\)": lambda: pe.SlidingWindow(2.5),
    r"Sinks\(count=1.5\)": lambda: pe.Sinks(1.5),
    r"LMInfinite\(window=3.5\)": lambda: pe.LMInfinite(8, 3.5),
}


# A check of types would come before the library's own.
@pytest.mark.unchecked
@pytest.mark.parametrize("said", REFUSED)
def test_sizes_of_masks_are_whole_numbers(said: str) -> None:
    with pytest.raises(SettingError, match=f"{said}: .* whole number"):
        REFUSED[said]()
