"""Frequencies, wavelengths and angles of every kind of rotation."""

import math

import pytest
import torch

import posenc as pe
from posenc import SettingError, UnsupportedError
from posenc.analysis import measure
from posenc.encodings.scaling import Scaling
from tests.support.measured import Windowed, exact


@pytest.mark.parametrize(
    "scaling",
    [
        None,
        pe.Linear(8),
        pe.NTK(8),
        pe.DynamicNTK(2.0, 64),
        pe.YaRN(8, 64),
        pe.YaRN(8, 64, ramp="paper"),
        pe.Llama3(8, 1.0, 4.0, 64),
        pe.LongRoPE([1.0] * 16, [1.0 + i for i in range(16)], 64, 8),
        pe.Proportional(0.5),
    ],
    ids=repr,
)
def test_wavelengths_of_every_scaling(scaling: Scaling | None) -> None:
    encoding, length = pe.Rotary(32, scaling=scaling), 512
    rule = scaling or Scaling()
    expected = [rule.reference(i, 10_000.0, 32, length) for i in range(16)]
    measured = measure.frequencies(encoding, length)
    exact(measured[0], torch.tensor(expected, dtype=torch.float64), 1e-13)
    waves, turns = measure.wavelengths(measured)[0], measure.turns(measured, length)[0]
    for f, wave, turned in zip(expected, waves.tolist(), turns.tolist(), strict=True):
        assert wave == (pytest.approx(2 * math.pi / f) if f else math.inf)
        assert turned == pytest.approx(512 * f / (2 * math.pi))


def test_frequencies_of_other_rotations() -> None:
    plain = pe.Rotary(8).frequencies()
    assert torch.equal(measure.frequencies(pe.Sinusoidal(8))[0], pe.Sinusoidal(8).frequencies())
    for encoding in (pe.XPos(8), pe.LMInfinite(8, window=4), pe.MRoPE(8, (2, 1, 1))):
        exact(measure.frequencies(encoding)[0], plain)
    axial = pe.AxialRotary(8, grid=(3, 3))
    exact(measure.frequencies(axial)[0], pe.Rotary(4).frequencies().repeat(2))
    assert measure.frequencies(pe.LearnedRotary(8, heads=3)).shape == (3, 4)
    for encoding in (pe.ALiBi(4), pe.Learned(8, 8), pe.NoPE()):
        with pytest.raises(UnsupportedError, match="give a rotary encoding"):
            measure.frequencies(encoding)
    with pytest.raises(SettingError, match=r"turns\(length=0\)"):
        measure.turns(plain, 0)


def test_a_pair_that_turns_backwards_turns_as_far() -> None:
    backwards = torch.tensor([1.0, -1.0, -0.01], dtype=torch.float64)
    turned = measure.turns(backwards, 100).tolist()
    assert turned == pytest.approx((100 / measure.wavelengths(backwards)).tolist())
    mixed = pe.MixedRotary(16, heads=4, axes=2)
    speeds = measure.frequencies(mixed)
    assert (speeds < 0).any()
    assert torch.equal(measure.turns(speeds, 64), measure.turns(-speeds, 64))


def test_largest_angles() -> None:
    plain = pe.Rotary(8).frequencies()
    exact(measure.largest_angles(pe.Rotary(8), 100)[0], 99 * plain)
    exact(measure.largest_angles(pe.ReRoPE(8, window=10), 100)[0], 10 * plain)
    leaky = pe.ReRoPE(8, window=10, leak=3.0)
    exact(measure.largest_angles(leaky, 100)[0], (10 + 89 / 3) * plain)
    exact(measure.largest_angles(pe.LMInfinite(8, window=10, sinks=2), 100)[0], 10 * plain)
    exact(measure.largest_angles(Windowed(8), 100)[0], 4 * plain)
    # A grid of rows of 7: the last of 10 tokens stands in column 2.
    axial = measure.largest_angles(pe.AxialRotary(4, grid=(9, 7)), 10)[0]
    exact(axial, torch.tensor([1.0, 6.0]))
    with pytest.raises(UnsupportedError, match="give a rotary encoding"):
        measure.largest_angles(pe.ALiBi(4), 8)
