"""A rolling cache whose rows are padded: each row goes on as it would alone, without padding."""

from typing import Any

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import Positions, attend
from tests.support.oracles import drawing

HEADS, DIM, WIDTH = 4, 8, 8


@torch.no_grad()
def errors(parts: Any, cache: pe.Cache, mask: Tensor, steps: int, sized: int = 1) -> list[float]:
    """By how much the steps after a padded prompt differ from each row's own tokens in one call."""
    (batch, prompt), draw = mask.shape, drawing(2)
    total = prompt + steps
    q, k, v = (draw(batch, HEADS, total, DIM) for _ in range(3))
    x = draw(batch, total, WIDTH)

    def told(rows: slice, tokens: Tensor) -> dict[str, Any]:
        context = pe.Context(x[rows][:, tokens]) if reads_input(parts) else None
        return {"context": context}

    def tokens(rows: slice, at: Tensor) -> tuple[Tensor, ...]:
        return tuple(y[rows][:, :, at] for y in (q, k, v))

    every, first = slice(None), torch.arange(prompt)
    place = Positions.build(attention_mask=mask, causal=True)
    attend(*tokens(every, first), parts, positions=place, cache=cache, **told(every, first))
    outs = []
    for new in torch.arange(prompt, total).split(sized):
        call = told(every, new)
        outs.append(attend(*tokens(every, new), parts, causal=True, cache=cache, **call))
    got, found = torch.cat(outs, dim=2), []
    for row in range(batch):
        own = torch.cat((mask[row].nonzero()[:, 0], torch.arange(prompt, total)))
        alone = slice(row, row + 1)
        full = attend(*tokens(alone, own), parts, causal=True, **told(alone, own))
        found.append(float((got[alone] - full[:, :, -steps:]).abs().max()))
    return found


def reads_input(parts: Any) -> bool:
    return any(part.tags.needs_context for part in parts)


def padded(*rows: tuple[int, int], count: int) -> Tensor:
    """A mask (b, count) of rows whose real tokens go from one column up to another."""
    column = torch.arange(count)
    return torch.stack([(column >= start) & (column < stop) for start, stop in rows])


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
def test_what_a_full_chunk_told_is_not_read_again(encoding: Any) -> None:
    parts, mask = [encoding.double(), pe.Chunked(3)], padded((0, 6), (2, 9), (0, 1), count=9)
    assert max(errors(parts, pe.RollingCache(chunk=3), mask, 6)) < 1e-12
