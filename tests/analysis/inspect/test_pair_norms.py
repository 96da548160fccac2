"""Norms of queries and keys by rotary pair."""

import math

import pytest
import torch

from posenc import Rotary, rotate
from posenc.analysis.inspect.pair_norms import pair_norms
from posenc.positions import Positions
from posenc.terms import Layout

POSITIONS = Positions.build(8)


class TestPairNorms:
    @pytest.mark.parametrize("layout", ["half", "interleaved"])
    def test_pairs_are_those_that_turn_together(self, layout: Layout) -> None:
        q = torch.zeros(2, 1, 8, 10)
        first, second = (1, 5) if layout == "half" else (2, 3)
        q[..., first], q[..., second] = 3.0, 4.0
        # What does not turn is in no pair.
        q[..., 8:] = 9.0
        rope = Rotary(10, layout=layout, rotary_dim=8)
        norms = pair_norms(q, 2 * q, rope.rotation(POSITIONS))
        assert norms.q.tolist() == [0.0, 5.0, 0.0, 0.0]
        assert norms.k.tolist() == [0.0, 10.0, 0.0, 0.0]
        assert norms.product.tolist() == [0.0, 50.0, 0.0, 0.0]

    def test_rotation_does_not_change_them(self) -> None:
        q, k = torch.randn(1, 4, 8, 16), torch.randn(1, 2, 8, 16)
        rope = Rotary(16)
        term = rope.rotation(POSITIONS)
        before, after = pair_norms(q, k, term), pair_norms(*rotate(q, k, rope), term)
        assert torch.allclose(before.product, after.product)

    def test_products_are_of_heads_that_meet(self) -> None:
        q, k = torch.zeros(1, 4, 8, 2), torch.zeros(1, 2, 8, 2)
        q[:, 3, :, 0], k[:, 1, :, 0] = 2.0, 3.0
        term = Rotary(2).rotation(POSITIONS)
        assert pair_norms(q, k, term).product.tolist() == [6.0 / 4]
        assert pair_norms(q, k.flip(1), term).product.tolist() == [0.0]

    def test_wavelengths(self) -> None:
        x = torch.ones(1, 1, 8, 4)
        found = pair_norms(x, x, Rotary(4, base=100.0).rotation(POSITIONS))
        assert found.wavelength.tolist() == pytest.approx([2 * math.pi, 20 * math.pi])
