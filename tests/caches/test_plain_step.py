"""The short way of a step whose number tells all is taken, and gives what the long way gives."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import plain_step
from posenc.lowering import flatten
from posenc.mask_rules import Prefix, Window
from posenc.native import query
from posenc.terms import Mask
from tests.support.spread import spread
from tests.support.steps import DIM, HEADS, Steps, same

TURNS = {
    "none": None,
    "nope": pe.NoPE(),
    "rotary": pe.Rotary(DIM),
    "interleaved": pe.Rotary(DIM, layout="interleaved", rotary_dim=8),
    "gain": pe.Rotary(DIM, scaling=pe.YaRN(4.0, 64)),
}
# torch.log and the like round the last numbers of a row otherwise than those amidst.
ADDS = {
    "alibi": pe.ALiBi(HEADS),
    "alibi inside": pe.ALiBi(HEADS, inside=True),
    "t5": pe.T5Bias(HEADS),
    "kerple": pe.KERPLE(HEADS),
    "sandwich": pe.Sandwich(HEADS),
}


CACHES = {
    "growing": pe.Cache,
    "of a length": lambda: pe.Cache(length=90),
    "static": lambda: pe.StaticCache(80),
}
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
# How many query heads share a key head, where keys are kept, and how many tokens of padding stand
# before each row, or behind it: none that is told, some, nothing but padding.
PLACES: list[tuple[int, str, tuple[int, int] | None]] = [
    *((shared, cache, None) for shared in (1, 2) for cache in CACHES),
    (1, "growing", (3, 0)),
    (2, "growing", (0, 0)),
    (2, "of a length", (1, 5)),
    (1, "static", (3, 0)),
    (1, "growing", (-2, 1)),
    (2, "static", (0, -3)),
]


def first(padding: tuple[int, int] | None) -> list[bool]:
    """The prompt goes no short way, and is not even asked for it with positions."""
    return [False] if padding is None else []


@pytest.mark.parametrize(("name", "place", "dtype"), spread(TURNS, PLACES, DTYPES), ids=str)
def test_it_gives_the_same_bits(
    name: str,
    dtype: torch.dtype,
    place: tuple[int, str, tuple[int, int] | None],
    taken: list[bool],
    the_long_way: Callable[[], None],
) -> None:
    shared, cache, padding = place
    # More of them than angles are made at once.
    count = 70
    short = Steps(TURNS[name], CACHES[cache](), dtype, shared, padding)
    actual = short.run(count)
    assert taken == first(padding) + count * [True]
    the_long_way()
    long = Steps(TURNS[name], CACHES[cache](), dtype, shared, padding)
    expected = long.run(count)
    if padding is None and (cache != "static" or query.suits(actual[0])):
        assert all(map(torch.equal, actual, expected))
    # A mask over all slots or over padding is for another kernel, which adds up in another order.
    bound = 2 * torch.finfo(dtype).eps
    torch.testing.assert_close(actual, expected, rtol=bound, atol=bound)
    same(short, long)


# With fewer keys than these windows show, and with more.
LISTS = {
    "nothing": [],
    "window": pe.SlidingWindow(20),
    "rotary, window": [pe.Rotary(DIM), pe.SlidingWindow(3)],
    "rotary, window, sinks": [pe.SlidingWindow(9), [pe.Rotary(DIM), pe.Sinks(4)]],
    "rotary, chunk": [pe.Rotary(DIM), pe.Chunked(13)],
    "chunk, window": [pe.ALiBi(HEADS), pe.Chunked(40), pe.SlidingWindow(9)],
    "rotary, bias": (pe.Rotary(DIM), pe.ALiBi(HEADS)),
    "two biases, window, sinks": [
        pe.T5Bias(HEADS), pe.ALiBi(HEADS, inside=True), pe.SlidingWindow(30), pe.Sinks(2)],
    "bias, two windows": [pe.ALiBi(HEADS), pe.SlidingWindow(30), pe.SlidingWindow(11)],
    "modules": torch.nn.ModuleList([pe.KERPLE(HEADS), pe.NoPE(), pe.Sinks(3)]),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "place", "dtype"), spread([*ADDS, *LISTS], PLACES, DTYPES), ids=str
)
def test_a_bias_is_the_same_to_a_rounding(
    name: str,
    dtype: torch.dtype,
    place: tuple[int, str, tuple[int, int] | None],
    taken: list[bool],
    the_long_way: Callable[[], None],
) -> None:
    (shared, cache, padding), count, encoding = place, 70, (ADDS | LISTS)[name]
    short = Steps(encoding, CACHES[cache](), dtype, shared, padding)
    with torch.no_grad():
        actual = short.run(count)
        # Those are counted from where a row begins, and distances where padding is between.
        counted = any(isinstance(x, (pe.Sinks, pe.Chunked)) for x in flatten(encoding))
        short_way = padding is None or (not counted and min(padding) >= 0)
        assert taken == first(padding) + count * [short_way or encoding == []]
        the_long_way()
        long = Steps(encoding, CACHES[cache](), dtype, shared, padding)
        expected = long.run(count)
    bound = 2 * torch.finfo(dtype).eps
    torch.testing.assert_close(actual, expected, rtol=bound, atol=bound)
    same(short, long)


# The chunk and the last window hide most keys, which a backend skips.
LOWERED = (
    TURNS | ADDS | {name: LISTS[name] for name in ("rotary, bias", "two biases, window, sinks")}
)
LOWERED |= {"fire": pe.FIRE(HEADS, width=8), "sink": [pe.Rotary(DIM), pe.SinkLogits(HEADS)]}


@pytest.mark.parametrize("padding", [None, (3, 0), (1, 5)])
@pytest.mark.parametrize("name", LOWERED)
def test_terms_that_come_lowered_take_it_too(
    name: str,
    padding: tuple[int, int] | None,
    taken: list[bool],
    the_long_way: Callable[[], None],
) -> None:
    encoding = LOWERED[name]

    def lowered(steps: Steps) -> list[Tensor]:
        steps.prompt()
        outs = []
        for _ in range(3):
            positions = steps.cache.place(1, None, encoding)
            steps.encoding = pe.lower(encoding, positions, keys_prerotated=True)
            outs.append(steps.step())
        return outs

    short, long = (Steps(encoding, pe.Cache(), padding=padding) for _ in range(2))
    with torch.no_grad():
        actual = lowered(short)
        assert taken == [*first(padding), True, True, True]
        the_long_way()
        expected = lowered(long)
    if name in TURNS and padding is None:
        assert all(map(torch.equal, actual, expected))
    torch.testing.assert_close(actual, expected, rtol=2e-7, atol=2e-7)
    same(short, long)


def a_prefix(cache: pe.Cache) -> pe.Lowered:
    return pe.lower([pe.Rotary(DIM), Mask(Prefix(3))], cache.place(1), keys_prerotated=True)


def a_narrow_window(cache: pe.Cache) -> pe.Lowered:
    parts = [pe.Rotary(DIM), pe.SlidingWindow(1)]
    return pe.lower(parts, cache.place(1), keys_prerotated=True)


def padding_alone(cache: pe.Cache) -> pe.Lowered:
    """The row goes on with a token that is none."""
    mask = torch.ones(2, 6, dtype=torch.bool)
    mask[0, 5] = False
    positions = pe.Positions.build(1, attention_mask=mask, causal=True)
    return pe.lower(pe.Rotary(DIM), positions, keys_prerotated=True)


@pytest.mark.parametrize("make", [a_prefix, a_narrow_window, padding_alone])
def test_other_terms_go_the_long_way(
    make: Callable[[pe.Cache], pe.Lowered], taken: list[bool]
) -> None:
    steps = Steps(pe.Rotary(DIM), pe.Cache())
    steps.prompt()
    steps.encoding = make(steps.cache)
    steps.step()
    assert taken == [False, False]


@pytest.mark.parametrize("shared", [1, 2])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [1, 254, 255, 300, 5000])
def test_it_takes_what_auto_takes(
    count: int, dtype: torch.dtype, shared: int, taken: list[bool]
) -> None:
    steps = Steps(pe.Rotary(DIM), pe.Cache(), dtype, shared)
    steps.prompt(count)
    steps.step()
    assert taken == [False, True]
    q, k = torch.zeros(2, HEADS, 1, DIM).to(dtype), steps.cache.k
    told = pe.explain_backend(q, k, k, pe.Rotary(DIM), causal=True)
    assert told.endswith("native: taken" if query.suits(q) else "sdpa: taken")


@pytest.mark.parametrize("anew", [False, True])
def test_angles_are_made_for_many_steps_at_once(
    anew: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    real = plain_step.lower

    def lower(*given: Any, **more: Any) -> pe.Lowered:
        asked.append(1)
        return real(*given, **more)

    monkeypatch.setattr(plain_step, "lower", lower)
    steps = Steps(pe.Rotary(DIM), pe.Cache())
    parts = [steps.encoding, pe.SlidingWindow(3)]
    steps.prompt()
    for _ in range(130):
        # A list that is made anew holds the same encodings.
        steps.encoding = list(parts) if anew else parts[0]
        steps.step()
    # Those that turn, and those that add.
    assert len(asked) == 2 * 3


@pytest.mark.parametrize(
    "more",
    [
        {"backend": "sdpa"},
        {"context": pe.Context(x=torch.zeros(2, 1, DIM))},
        {"positions": torch.arange(6)},
        {"dropout": 0.5},
    ],
    ids=lambda more: next(iter(more)),
)
def test_what_is_asked_besides_goes_the_long_way(more: dict[str, Any], taken: list[bool]) -> None:
    steps = Steps(pe.Rotary(DIM), pe.Cache())
    steps.prompt()
    taken.clear()
    steps.step(**more)
    assert taken == []


OTHERS: dict[str, Callable[[], tuple[Any, pe.Cache]]] = {
    "a bias by position": lambda: (pe.FIRE(HEADS, width=8), pe.Cache()),
    "vectors": lambda: (pe.Shaw(DIM, clip=4), pe.Cache()),
    "a list with vectors": lambda: ([pe.ALiBi(HEADS), pe.Shaw(DIM, clip=4)], pe.Cache()),
    "terms in a list": lambda: ([pe.Rotary(DIM), Mask(Window(3))], pe.Cache()),
    "sinks told anew": lambda: (pe.Sinks(1, window=4, rotary=pe.Rotary(DIM)), pe.Cache("raw")),
    "learned angles": lambda: (pe.LearnedRotary(DIM), pe.Cache()),
    "angles by length": lambda: (
        pe.Rotary(DIM, scaling=pe.DynamicNTK(2.0, original_length=4)),
        pe.Cache(length=16),
    ),
    "zones": lambda: (pe.ReRoPE(DIM, window=3), pe.Cache("raw")),
    "raw": lambda: (pe.Rotary(DIM), pe.Cache("raw")),
    "static and raw": lambda: (pe.Rotary(DIM), pe.StaticCache(16, "raw")),
    "rolling": lambda: ([pe.Rotary(DIM), pe.SlidingWindow(16)], pe.RollingCache(16)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_encodings_and_caches_go_the_long_way(name: str, taken: list[bool]) -> None:
    with torch.no_grad():
        Steps(*OTHERS[name]()).run(2)
    assert taken == 3 * [False]
