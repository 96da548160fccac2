"""Waves in place of the sine: their values, and what each option loses."""

import math

import pytest
import torch
from torch import Tensor

from posenc import Encoding, Sinusoidal, Waveform
from posenc.encodings.waveform import WAVES, Wave

# The lowest of four geometric frequencies still turns within the 64 positions that are looked at.
SETTINGS = {"dim": 8, "base": 1000.0}


def table(encoding: Encoding, length: int = 64) -> Tensor:
    return encoding.embed(torch.zeros(1, length, encoding.dim, dtype=torch.float64), None)[0]


def shift_error(p: Tensor, step: int) -> float:
    """How far the best linear map is from taking every p[pos] to p[pos + step]."""
    before, after = p[:-step], p[step:]
    shift = torch.linalg.lstsq(before, after, driver="gelsd").solution
    return (before @ shift - after).abs().max().item()


def worst_shift(p: Tensor) -> float:
    return max(shift_error(p, step) for step in (1, 5, 20))


def spread(p: Tensor) -> float:
    """How much the inner products of positions that are equally far apart differ."""
    products = p @ p.T
    diagonals = [products.diagonal(step) for step in range(len(p))]
    return max((each.max() - each.min()).item() for each in diagonals)


def nearest(p: Tensor) -> float:
    """The least distance between the vectors of two positions."""
    return torch.pdist(p).min().item()


def test_sine_in_quadrature_is_the_sinusoid() -> None:
    for dim, base in ((64, 10_000.0), (9, 20.0)):
        ours, theirs = (table(kind(dim, base=base), 2000) for kind in (Waveform, Sinusoidal))
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
        assert torch.equal(ours.float(), theirs.float())


def test_sine_in_quadrature_loses_nothing() -> None:
    p = table(Waveform(**SETTINGS))
    assert worst_shift(p) < 1e-12
    assert spread(p) < 1e-12
    assert nearest(p) > 0.9
    assert torch.linalg.matrix_rank(p) == 8


@pytest.mark.parametrize("pairing", ["single", "mismatched"])
def test_unpaired_sines_lose_the_shift_and_the_distance(pairing: str) -> None:
    p = table(Waveform(**SETTINGS, pairing=pairing))
    assert worst_shift(p) > 0.5
    assert spread(p) > 2.0


def test_sines_alone_confuse_positions() -> None:
    """Odd harmonics of one wave rise and fall alike: sin(pi - x) = sin(x) for each of them."""
    harmonics = [2 * math.pi / 32 * odd for odd in (1, 3, 5, 7)]
    alone = table(Waveform(4, pairing="single", frequencies=harmonics), 32)
    torch.testing.assert_close(alone[3], alone[13], rtol=0, atol=1e-12)
    paired = table(Waveform(8, frequencies=harmonics), 32)
    assert nearest(paired) > 0.1


def test_one_frequency_repeats() -> None:
    every_16 = table(Waveform(8, frequencies=[2 * math.pi / 16] * 4))
    torch.testing.assert_close(every_16[16:], every_16[:-16], rtol=0, atol=1e-12)
    # 710 radians are 113 turns but for 6e-5, so one radian per token comes back as well.
    p = table(Waveform(**SETTINGS, frequencies="one"), 711)
    assert (p[710] - p[0]).abs().max() < 1e-4
    assert torch.linalg.matrix_rank(p) == 2
    q = table(Waveform(**SETTINGS), 711)
    assert (q[710] - q[0]).abs().max() > 0.1


def test_a_mismatch_that_exchanges_frequencies_loses_nothing() -> None:
    """Every sine still has its cosine, in another pair: order alone never mattered."""
    p = table(Waveform(4, pairing="mismatched", frequencies=[1.0, 0.1, 0.1, 1.0]))
    assert worst_shift(p) < 1e-12
    assert spread(p) < 1e-12


@pytest.mark.parametrize("wave", ["triangle", "square", "sawtooth"])
def test_other_waves_lose_the_shift_and_the_distance(wave: Wave) -> None:
    p = table(Waveform(**SETTINGS, wave=wave))
    assert worst_shift(p) > 0.3
    assert spread(p) > 1.0


def test_square_waves_confuse_neighbours() -> None:
    p = table(Waveform(**SETTINGS, wave="square"))
    assert torch.equal(p[0], p[1])
    for wave in ("triangle", "sawtooth"):
        assert nearest(table(Waveform(**SETTINGS, wave=wave))) > 0.4


def test_the_values_of_each_wave_at_eighths_of_a_turn() -> None:
    turns = torch.arange(8, dtype=torch.float64) / 8
    half = 0.5**0.5
    expected = {
        "sine": [0, half, 1, half, 0, -half, -1, -half],
        "triangle": [0, 0.5, 1, 0.5, 0, -0.5, -1, -0.5],
        "square": [1, 1, 1, 1, -1, -1, -1, -1],
        "sawtooth": [0, 0.25, 0.5, 0.75, -1, -0.75, -0.5, -0.25],
    }
    assert set(expected) == set(WAVES)
    for name, values in expected.items():
        found = WAVES[name](turns + 3)
        wanted = torch.tensor(values, dtype=torch.float64)
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-14)


def test_jumps_come_where_they_should_far_out() -> None:
    made = Waveform(2, wave="square", frequencies=[2 * math.pi / 4])
    at = torch.arange(10**9, 10**9 + 8)
    found = made.embed(torch.zeros(1, 8, 2), at)[0]
    assert found[:, 0].tolist() == [1, 1, -1, -1] * 2
    assert found[:, 1].tolist() == [1, -1, -1, 1] * 2


def humming(turns: Tensor) -> Tensor:
    return WAVES["sine"](turns) * 0.75 + WAVES["sine"](3 * turns) * 0.25


def test_a_function_of_ones_own() -> None:
    made = Waveform(4, wave=humming, frequencies=[1.0, 0.1])
    assert "wave=humming" in repr(made)
    assert "frequencies=(1.0, 0.1)" in repr(made)
    x = torch.zeros(1, 5, 4, dtype=torch.float64)
    found = made.embed(x, torch.arange(5))
    angle = torch.arange(5)[:, None] * torch.tensor([1.0, 0.1], dtype=torch.float64)
    sines = 0.75 * angle.sin() + 0.25 * (3 * angle).sin()
    torch.testing.assert_close(found[0, :, 0::2], sines, rtol=0, atol=1e-14)
    low = made.embed(x.bfloat16(), torch.arange(5))
    assert low.dtype == torch.bfloat16
