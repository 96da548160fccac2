"""Encodings of images, beside what holds for every encoding."""

import pytest
import torch

import posenc as pe
from posenc import AxialRotary, GridLearned, GridSinusoidal, MixedRotary, Positions, SwinBias
from posenc.errors import PositionsError, SettingError
from tests.support.oracles import drawing


def test_mixed_frequencies_start_as_axial_ones_turned_in_each_head() -> None:
    torch.manual_seed(3)
    made = MixedRotary(32, heads=4, base=10.0)
    rows, columns = made.frequency.detach()
    expected = 10.0 ** (-torch.arange(8) / 8)
    torch.testing.assert_close((rows**2 + columns**2).sqrt(), expected.repeat(4, 2))
    # Both halves wave at right angles, by another angle in each head.
    across = rows[:, :8] * rows[:, 8:] + columns[:, :8] * columns[:, 8:]
    torch.testing.assert_close(across, torch.zeros(4, 8), rtol=0, atol=1e-6)
    directions = torch.atan2(rows, columns)[:, 0]
    assert directions.unique().numel() == 4


def test_mixed_frequencies_along_the_axes_are_axial() -> None:
    draw = drawing(1)
    q, k = draw(2, 4, 12, 16), draw(2, 4, 12, 16)
    mixed = MixedRotary(16, heads=4, base=10.0).double()
    spectrum = 10.0 ** (-torch.arange(4, dtype=torch.float64) / 8)
    with torch.no_grad():
        mixed.frequency.zero_()
        mixed.frequency[0, :, :4] = mixed.frequency[1, :, 4:] = spectrum
    at = Positions.grid(3, 4)
    axial = AxialRotary(16, layout="interleaved", frequencies=[*spectrum.tolist()] * 2)
    expected = pe.scores(q, k, axial, positions=at)
    torch.testing.assert_close(pe.scores(q, k, mixed, positions=at), expected)


def test_sinusoids_of_a_video_give_time_its_width() -> None:
    made = GridSinusoidal(16, axes=3, widths=(8, 4, 4))
    (at,) = made.vectors(Positions.grid(1, 2, frames=2))
    moved = {"frame": at[2] - at[0], "column": at[1] - at[0]}
    columns = {name: step.nonzero()[:, 0].tolist() for name, step in moved.items()}
    assert columns == {"frame": [*range(8)], "column": [*range(12, 16)]}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: MixedRotary(16, 4, axes=3), r"dim=16, axes=3.*multiple of 6"),
        (lambda: MixedRotary(16, 4, grid=(3, 4, 5)), r"MixedRotary\(axes=2, grid=\(3, 4, 5\)"),
        (lambda: MixedRotary(16, 0), "heads=0"),
        (lambda: GridSinusoidal(16, order=(1, 1)), r"order=\(1, 1\).*permutation"),
        (lambda: GridSinusoidal(18), r"widths=\(9, 9\).*even numbers"),
        (lambda: GridSinusoidal(16, widths=(8, 4)), "add up to dim"),
        (lambda: GridLearned(16, 8, order=(0, 2)), r"order=\(0, 2\).*permutation"),
        (lambda: GridLearned(15, 8, join="concat"), "need a dim that is a multiple of 2"),
        (lambda: GridLearned(16, 8, grid=(3, 9)), r"grid=\(3, 9\).*max_length >= 9"),
        (
            lambda: GridSinusoidal(16, layout="interleaved", denominator="tensor2tensor"),
            "tensor2tensor puts all sines before",
        ),
    ],
)
def test_settings_of_images_are_checked(make, said: str) -> None:
    with pytest.raises(SettingError, match=said):
        make()


def test_differences_beyond_a_window_read_its_edge() -> None:
    made = SwinBias(4, (2, 3)).double()
    draw = drawing(1)
    q, k = draw(1, 4, 20, 8), draw(1, 4, 20, 8)
    at = Positions.grid(4, 5)
    added = pe.scores(q, k, made, positions=at) - pe.scores(q, k, None, positions=at)
    # From row 3, column 0 to row 0, column 4: 3 rows up are read as one, 4 columns as two.
    near = made.weight[(1 + 1) * 5 + (-2 + 2)]
    torch.testing.assert_close(added[0, :, 15, 4], near)


def test_trained_rows_and_columns_end_where_their_tables_do() -> None:
    x, counted = torch.zeros(1, 12, 16), GridLearned(16, 4, grid=(3, 4))
    along = GridLearned(16, 4).eval()
    along.load_state_dict(counted.state_dict())
    assert torch.equal(counted.embed(x, None), along.embed(x, Positions.grid(3, 4)))
    with pytest.raises(PositionsError, match=r"up to 4: .*max_length >= 5"):
        counted.embed(torch.zeros(1, 17, 16), None)
    with pytest.raises(PositionsError, match=r"up to 4: .*max_length >= 5"):
        along.embed(torch.zeros(1, 5, 16), Positions.grid(1, 5))
    with pytest.raises(PositionsError, match="whole rows and columns"):
        along.embed(x, Positions.grid(3, 4, normalise="separate"))


def test_fractional_places_have_no_entry_in_a_table() -> None:
    q = torch.zeros(1, 4, 4, 8)
    at = Positions.grid(2, 2, normalise="separate")
    with pytest.raises(PositionsError, match=r"SwinBias holds one number.*Positions\.grid"):
        pe.scores(q, q, SwinBias(4, (2, 2)), positions=at)
