"""Scalings of the length at hand, and of whole wavelengths."""

import pytest
import torch

import posenc as pe
from posenc import Positions, Rotary

DIM = 64


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_dynamic_yarn_is_yarn_of_the_length_at_hand(factor: float) -> None:
    """Frequencies and gain, each row by its own length; up to the original one they rest."""
    settings = {"beta_fast": 1.0, "beta_slow": 0.1}
    encoding = Rotary(DIM, scaling=pe.DynamicYaRN(8, factor, **settings))
    q, k = torch.randn(2, 3, 2, 32, DIM, dtype=torch.float64)
    lengths = [32, 20, 8]
    mask = torch.stack([torch.arange(32) < length for length in lengths])
    made = pe.scores(q, k, encoding, positions=Positions.build(attention_mask=mask))
    for row, length in enumerate(lengths):
        fixed = Rotary(DIM, scaling=pe.YaRN(max(factor, length / 8), 8, **settings))
        alone = pe.scores(q[row : row + 1, :, :length], k[row : row + 1, :, :length], fixed)
        torch.testing.assert_close(made[row, :, :length, :length], alone[0])
    if factor == 1.0:
        assert torch.equal(encoding.frequencies(), Rotary(DIM).frequencies())


def test_resonant_pairs_come_back_to_where_they_were() -> None:
    """The first wavelength of a base of 10,000 is 6, of which 2 pi falls short."""
    plain, whole = Rotary(DIM), Rotary(DIM, scaling=pe.Resonance())
    at = torch.arange(60)
    waves = whole.angles(at).cos()[0, 0, :, :3]
    wavelengths = (2 * torch.pi / whole.frequencies()).round().long().tolist()
    assert wavelengths[:3] == [6, 8, 11]
    for pair, length in enumerate(wavelengths[:3]):
        torch.testing.assert_close(waves[length:, pair], waves[:-length, pair])
        drift = plain.angles(at).cos()[0, 0, :, pair]
        assert (drift[length:] - drift[:-length]).abs().max() > 0.05
