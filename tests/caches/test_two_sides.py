"""Queries that are no new keys, as text that reads a stream of sound, through every cache."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import Cache, Encoding, Positions, RollingCache, StaticCache, Tokens, attend
from tests.support.oracles import drawing

COUNT, HEADS, DIM = 8, 4, 8
ORDER = torch.arange(COUNT)
SOUND = ORDER * 3
TEXT = torch.tensor([0, 2, 3, 7, 8, 11, 14, 20])
CACHES: list[Callable[[], Cache]] = [
    Cache,
    lambda: Cache("raw"),
    lambda: RollingCache(COUNT),
    lambda: StaticCache(COUNT),
]


def sides(
    start: int, stop: int, keys: int, asking: Tensor | None = None, heard: Tensor | None = None
) -> Positions:
    """Text of these numbers, and all sound before its end, or all slots for it."""
    of_text = None if asking is None else asking[:, start:stop]
    of_sound = None if heard is None else heard[:, :keys]
    text = Tokens(TEXT[start:stop], order=ORDER[start:stop], valid=of_text)
    return Positions(text, Tokens(SOUND[:keys], order=ORDER[:keys], valid=of_sound), extent=30)


def check_stream(encoding: Encoding, cache: Cache, step: int, *told: Tensor) -> None:
    """As many texts as sounds in each call, which say what they say with all sound in one call."""
    draw = drawing(2)
    q, k, v = (draw(2, heads, COUNT, DIM) for heads in (HEADS, HEADS, HEADS))
    parts = [encoding, pe.SlidingWindow(COUNT)]
    for start in range(0, COUNT, step):
        new = slice(start, start + step)
        whole = sides(new.start, new.stop, new.stop, *told)
        expected = attend(
            q[:, :, new], k[:, :, : new.stop], v[:, :, : new.stop], parts, positions=whole
        )
        slots = COUNT if isinstance(cache, StaticCache) and start else new.stop
        place = sides(new.start, new.stop, slots, *told)
        got = attend(q[:, :, new], k[:, :, new], v[:, :, new], parts, positions=place, cache=cache)
        torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("make", CACHES)
@pytest.mark.parametrize("encoding", [pe.Rotary(DIM), pe.RotaryValues(DIM), pe.LieRE(DIM).double()])
def test_new_keys_turn_where_they_are(
    encoding: Encoding, make: Callable[[], Cache], step: int
) -> None:
    with torch.no_grad():
        check_stream(encoding, make(), step)


@pytest.mark.parametrize("step", [2, 4])
@pytest.mark.parametrize("make", CACHES)
def test_new_keys_are_padding_where_they_say_so(make: Callable[[], Cache], step: int) -> None:
    """Text of one row begins late, sound of the other ends early."""
    asking, heard = torch.ones(2, 2, COUNT, dtype=torch.bool)
    asking[0, :4], heard[1, 6:] = False, False
    with torch.no_grad():
        check_stream(pe.Rotary(DIM), make(), step, asking, heard)


def test_padding_that_lies_on_another_device_is_refused_by_name() -> None:
    mask = torch.tensor([[0, 1, 1], [1, 1, 1]])
    place = Positions.build(attention_mask=mask, causal=True)
    q = torch.zeros(2, HEADS, 3, DIM, device="meta")
    with pytest.raises(pe.ShapeError, match="was made for a CPU, but q is on the meta device"):
        attend(q, q, q, pe.Rotary(DIM), positions=place)
    cache, here = Cache(), torch.zeros(2, HEADS, 3, DIM)
    attend(here, here, here, pe.Rotary(DIM), positions=place, cache=cache)
    with pytest.raises(pe.CacheError, match=r"torch\.float32 on cpu, but the new ones"):
        attend(q, q, q, pe.Rotary(DIM), causal=True, cache=cache)
