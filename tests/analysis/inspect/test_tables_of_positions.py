"""Rows of learned tables, their components, and changes of outputs."""

import math

import pytest
import torch

from posenc import Sinusoidal
from posenc.analysis.inspect.change import change
from posenc.analysis.inspect.principal_components import principal_components
from posenc.analysis.inspect.table_rows import table_rows
from posenc.errors import ShapeError
from posenc.positions import Positions, Tokens

C = 128
TOKENS = Tokens(torch.arange(160))
WAVES = Sinusoidal(C).embed(torch.zeros(1, 160, C), Positions(TOKENS, TOKENS))[0]


def partly_trained() -> torch.Tensor:
    """160 rows, of which those beyond 100 are as they were drawn."""
    rows = 0.02 * torch.randn(160, C)
    rows[:101] += 0.1 * WAVES[:101]
    return rows


class TestTableRows:
    def test_rows_beyond_100_are_at_initialisation(self) -> None:
        told = table_rows(partly_trained(), 0.02)
        assert told.state == ("trained",) * 101 + ("initial",) * 59

    def test_without_a_deviation_they_are_only_unlike_their_neighbours(self) -> None:
        told = table_rows(partly_trained())
        assert told.state == ("trained",) * 101 + ("unrelated",) * 59

    def test_rows_of_another_length_were_trained(self) -> None:
        told = table_rows(0.2 * torch.randn(64, C), 0.02)
        assert set(told.state) == {"trained"}

    def test_rows_that_decayed_since_are_trained(self) -> None:
        assert set(table_rows(0.01 * torch.randn(64, C), 0.02).state) == {"trained"}

    def test_padding_is_zero(self) -> None:
        rows = partly_trained()
        rows[0] = 0.0
        assert table_rows(rows, 0.02).state[:2] == ("zero", "trained")

    @pytest.mark.parametrize("columns", [14, 16, 24, 32, 64])
    def test_sinusoids_of_few_columns_are_told_from_chance(self, columns: int) -> None:
        waves = Sinusoidal(columns).embed(torch.zeros(1, 160, columns), Positions(TOKENS, TOKENS))
        assert set(table_rows(waves[0]).state) == {"trained"}
        drawn = torch.randn(20_000, columns, generator=torch.Generator().manual_seed(0))
        assert set(table_rows(drawn, 1.0).state) == {"initial"}

    @pytest.mark.parametrize("columns", [1, 2, 4])
    def test_so_few_columns_tell_nothing(self, columns: int) -> None:
        rows = torch.randn(2000, columns, generator=torch.Generator().manual_seed(0))
        assert set(table_rows(rows).state) == {"unrelated"}

    def test_norms_and_neighbours(self) -> None:
        told = table_rows(torch.tensor([[3.0, 4.0], [6.0, 8.0], [-8.0, 6.0]]))
        assert told.norm.tolist() == [5.0, 10.0, 10.0]
        assert told.neighbour.tolist() == pytest.approx([1.0, 1.0, 0.0])

    def test_one_row_has_no_neighbour(self) -> None:
        assert table_rows(torch.ones(1, C)).state == ("unrelated",)


class TestPrincipalComponents:
    def test_a_line_has_one_component(self) -> None:
        rows = torch.arange(5.0)[:, None] * torch.tensor([3.0, 4.0, 0.0]) + 7.0
        found = principal_components(rows, 2)
        assert found.share.tolist() == pytest.approx([1.0, 0.0])
        assert found.coordinates[:, 0].abs().tolist() == pytest.approx([10, 5, 0, 5, 10], abs=1e-9)

    def test_coordinates_rebuild_distances(self) -> None:
        rows = torch.randn(6, 3, dtype=torch.float64)
        found = principal_components(rows)
        assert torch.allclose(torch.cdist(found.coordinates, found.coordinates),
                              torch.cdist(rows, rows))  # fmt: skip
        assert found.share.sum().item() == pytest.approx(1.0)
        assert (found.share.diff() <= 0).all()

    def test_equal_rows_have_none(self) -> None:
        assert principal_components(torch.ones(4, 4)).share.tolist() == [0.0, 0.0, 0.0]

    @pytest.mark.parametrize("count", [0, 5])
    def test_there_are_no_more_than_rows(self, count: int) -> None:
        with pytest.raises(ShapeError, match="1 to 4 components"):
            principal_components(torch.ones(4, 8), count)


class TestChange:
    def test_largest_mean_and_share_of_the_spread(self) -> None:
        before = torch.tensor([[1.0, -1.0, 1.0, -1.0]])
        found = change(before, before + torch.tensor([[0.0, 0.0, 0.4, -0.8]]))
        assert found.largest == pytest.approx(0.8)
        assert found.mean == found.relative == pytest.approx(0.3)

    def test_nothing(self) -> None:
        same = torch.randn(2, 3)
        assert change(same, same).relative == change(same * 0, same * 0).relative == 0.0

    def test_a_constant_output_that_changes(self) -> None:
        assert math.isclose(change(torch.zeros(4), torch.ones(4)).relative, 1.0)

    @pytest.mark.usefixtures("unhooked")
    def test_other_shapes(self) -> None:
        with pytest.raises(ShapeError, match="shapes differ"):
            change(torch.zeros(2), torch.zeros(3))
