"""Turned keys move to other positions, by the difference of two angles."""

from typing import Any

import pytest
import torch

import posenc as pe
from posenc import (
    Cache,
    CacheError,
    Positions,
    PositionsError,
    ShapeError,
    UnsupportedError,
    attend,
    rerotate,
    rotate,
)
from tests.support.oracles import drawing

DIM, LENGTH = 16, 7
KEYS = drawing(6)(2, 3, LENGTH, DIM)
OLD = torch.arange(LENGTH)
NEW = torch.randint(100_000, (2, LENGTH), generator=torch.Generator().manual_seed(9))
ROTARY: dict[str, pe.Encoding] = {
    "half": pe.Rotary(DIM),
    "interleaved, partial": pe.Rotary(DIM, base=500.0, layout="interleaved", rotary_dim=6),
    "a gain": pe.Rotary(DIM, scaling=pe.YaRN(4.0, 64)),
    "llama 3": pe.Rotary(DIM, scaling=pe.Llama3(8.0, 1.0, 4.0, original_length=64)),
    "a spectrum per head": pe.LearnedRotary(DIM, heads=3),
    "text in three axes": pe.MRoPE(DIM, (4, 2, 2)),
}


@pytest.mark.parametrize("name", ROTARY)
def test_it_is_the_turn_at_the_new_positions(name: str) -> None:
    def turned(at: Any) -> torch.Tensor:
        return rotate(KEYS, KEYS, ROTARY[name], positions=at)[1]

    moved = rerotate(turned(OLD), OLD, NEW, ROTARY[name])
    torch.testing.assert_close(moved, turned(NEW), rtol=1e-10, atol=1e-10)
    back = rerotate(moved, NEW, OLD, ROTARY[name])
    torch.testing.assert_close(back, turned(OLD), rtol=1e-12, atol=1e-12)
    assert torch.equal(rerotate(moved, NEW, NEW, ROTARY[name]), moved)


def test_several_axes() -> None:
    rope, draw = pe.MRoPE(DIM, (4, 2, 2)), torch.Generator().manual_seed(1)
    old, new = (torch.randint(50, (2, LENGTH, 3), generator=draw) for _ in range(2))
    keys = rotate(KEYS, KEYS, rope, positions=old)[1]
    expected = rotate(KEYS, KEYS, rope, positions=new)[1]
    torch.testing.assert_close(rerotate(keys, old, new, rope), expected)


def test_frequencies_of_another_length() -> None:
    """The keys of one layer, cached for a shorter input, get the angles of a longer one."""
    rope = pe.Rotary(DIM, scaling=pe.DynamicNTK(2.0, original_length=4))

    def at(extent: int) -> Positions:
        return Positions.build(LENGTH, extent=extent)

    short, long = (rotate(KEYS, KEYS, rope, positions=at(n))[1] for n in (8, 4096))
    assert (short - long).abs().max() > 0.1
    torch.testing.assert_close(rerotate(short, at(8), at(4096), rope), long)
    with pytest.raises(PositionsError, match=r"depend on the length, which new= does not tell"):
        rerotate(short, at(8), OLD, rope)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_low_precision_rounds_once_more(dtype: torch.dtype) -> None:
    rope = pe.Rotary(DIM)
    keys = rotate(KEYS, KEYS, rope, positions=OLD)[1]
    expected = rotate(KEYS, KEYS, rope, positions=NEW)[1]
    moved = rerotate(keys.to(dtype), OLD, NEW, rope)
    assert moved.dtype == dtype
    bound = 4 * torch.finfo(dtype).eps
    torch.testing.assert_close(moved.double(), expected, rtol=bound, atol=bound)


def test_a_cache_whose_keys_move_up() -> None:
    """Tokens left out of the middle of one layer's cache, as if they had never been."""
    draw, rope, cache = drawing(8), pe.Rotary(DIM), Cache()
    q, k, v = (draw(2, 3, LENGTH, DIM) for _ in range(3))
    attend(*(x[:, :, :6] for x in (q, k, v)), rope, causal=True, cache=cache)
    kept = torch.tensor([0, 1, 4, 5])
    cache.k = rerotate(cache.k[:, :, kept], kept, torch.arange(4), rope)
    cache.v = cache.v[:, :, kept]
    new = [x[:, :, 6:] for x in (q, k, v)]
    with pytest.raises(CacheError, match="last call placed 6: where k and v were exchanged"):
        attend(*new, rope, causal=True, cache=cache)
    got = attend(*new, rope, positions=Positions.build(1, 5, causal=True), cache=cache)
    kept = torch.tensor([0, 1, 4, 5, 6])
    expected = attend(q[:, :, 6:], k[:, :, kept], v[:, :, kept], rope, causal=True)
    torch.testing.assert_close(got, expected)


REFUSED: dict[str, tuple[pe.Encoding, str]] = {
    "two zones": (pe.ReRoPE(DIM, window=3), r"it lowers to \['Zones'\]"),
    "no rotation": (pe.ALiBi(3), r"it lowers to \['Slope'\]"),
    "nothing": (pe.NoPE(), r"it lowers to \[\]"),
    "growing factors": (pe.XPos(DIM), "factors differ by position.*"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_undone(name: str) -> None:
    encoding, said = REFUSED[name]
    with pytest.raises(UnsupportedError, match=said):
        rerotate(KEYS, OLD, OLD + 1, encoding)


def test_one_position_per_key() -> None:
    with pytest.raises(PositionsError, match=r"new= places 6 keys: give one position per key"):
        rerotate(KEYS, OLD, OLD[1:], pe.Rotary(DIM))


def test_keys_of_other_heads() -> None:
    at = torch.arange(4)
    with pytest.raises(ShapeError, match=r"was made for head_dim=8: construct it for 16"):
        pe.rerotate(torch.randn(1, 2, 4, 16), at, at + 3, pe.Rotary(8))
