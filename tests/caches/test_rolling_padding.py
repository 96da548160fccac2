"""A rolling cache whose rows are padded: each row goes on as it would alone, without padding."""

from typing import Any

import pytest

import posenc as pe
from tests.support.padded_steps import DIM, HEADS, WIDTH, errors, padded


# Lengths in their rows, of chunks of two and of four, that end with a full chunk or within one.
@pytest.mark.parametrize("chunk", [2, 4])
@pytest.mark.parametrize(
    "encoding", [pe.NoPE(), pe.Rotary(DIM), pe.Temperature("log_n", original_length=4)]
)
@pytest.mark.parametrize("rows", [((0, 4), (0, 7)), ((0, 4), (0, 1)), ((0, 6), (6, 7)), ((0, 4),)])
def test_a_row_whose_chunk_is_just_full_goes_on_from_there(
    rows: Any, encoding: Any, chunk: int
) -> None:
    mask, parts = padded(*rows, count=7), [encoding, pe.Chunked(chunk)]
    for sized in (1, 3):
        assert max(errors(parts, pe.RollingCache(chunk=chunk), mask, 6, sized)) < 1e-12


def test_a_row_of_padding_alone_holds_no_more_than_others() -> None:
    mask, cache = padded((0, 0), (0, 4), count=7), pe.RollingCache(chunk=4)
    assert max(errors([pe.Rotary(DIM), pe.Chunked(4)], cache, mask, 3)) < 1e-12
    assert len(cache) == 3


TOLD = [
    pe.ForgetGate(WIDTH, HEADS),
    pe.CABLE(WIDTH, HEADS),
    pe.Mamba3Rotary(WIDTH, HEADS, DIM),
    pe.SelectiveRotary(WIDTH, HEADS, DIM, conv=1),
]


# A column that is kept for one row is padding of the other, before, between or behind its tokens.
@pytest.mark.parametrize("encoding", TOLD)
@pytest.mark.parametrize(("window", "sinks"), [(1, 1), (2, 1), (3, 0), (4, 2)])
@pytest.mark.parametrize("rows", [((8, 9), (0, 5)), ((0, 9), (0, 2)), ((3, 7), (5, 6), (0, 8))])
def test_what_evicted_tokens_told_is_kept_by_real_ones(
    rows: Any, window: int, sinks: int, encoding: Any
) -> None:
    parts = [encoding.double(), pe.SlidingWindow(window), *([pe.Sinks(sinks)] if sinks else [])]
    for sized, policy in ((1, "rotated"), (3, "rotated"), (1, "raw")):
        cache = pe.RollingCache(window, sinks, policy)
        assert max(errors(parts, cache, padded(*rows, count=9), 6, sized)) < 1e-12


@pytest.mark.parametrize("encoding", TOLD)
@pytest.mark.parametrize("sized", [1, 3])
def test_one_row_of_input_tells_rows_that_are_padded_apart(encoding: Any, sized: int) -> None:
    parts, mask = [encoding.double(), pe.SlidingWindow(2)], padded((0, 9), (2, 8), count=9)
    assert max(errors(parts, pe.RollingCache(2), mask, 6, sized, one_input=True)) < 1e-12


@pytest.mark.parametrize("encoding", TOLD)
def test_what_a_full_chunk_told_is_not_read_again(encoding: Any) -> None:
    parts, mask = [encoding.double(), pe.Chunked(3)], padded((0, 6), (2, 9), (0, 1), count=9)
    assert max(errors(parts, pe.RollingCache(chunk=3), mask, 6)) < 1e-12
