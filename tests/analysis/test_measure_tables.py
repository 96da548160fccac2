"""Tables of positions and distances, against closed forms and cases made by hand."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import posenc as pe
from posenc import Encoding, ShapeError, UnsupportedError
from posenc.analysis import measure
from tests.support.measured import Bumps, drawn, exact


@given(st.lists(st.lists(st.integers(0, 2), min_size=2, max_size=2), min_size=1, max_size=12))
def test_uniqueness_counts_as_a_set_does(rows: list[list[int]]) -> None:
    measured = measure.uniqueness(torch.tensor(rows).double())
    as_tuples = [tuple(row) for row in rows]
    assert (measured.rows, measured.distinct) == (len(rows), len(set(as_tuples)))
    repeats = [i for i, row in enumerate(as_tuples) if row in as_tuples[:i]]
    expected = (as_tuples.index(as_tuples[repeats[0]]), repeats[0]) if repeats else None
    assert measured.collision == expected


def test_integers_in_bfloat16_collide_at_257() -> None:
    table = measure.position_table(pe.Ordinal(), 4097)
    assert measure.uniqueness(table).collision is None
    # 8 bits: 256 distinct to 256, then 128 in every further octave.
    measured = measure.uniqueness(table, torch.bfloat16)
    assert (measured.distinct, measured.collision) == (257 + 4 * 128, (256, 257))
    assert measure.uniqueness(table, torch.float16).collision == (2048, 2049)


def test_zeros_of_either_sign_are_one_row() -> None:
    assert measure.uniqueness(torch.tensor([[0.0], [-0.0]])).collision == (0, 1)


def test_binary_digits_repeat_where_they_run_out() -> None:
    digits = measure.position_table(pe.Binary(3), 8)
    assert measure.uniqueness(digits).distinct == 8
    assert measure.uniqueness(torch.cat((digits, digits))).collision == (0, 8)


def test_square_waves_give_neighbours_one_row() -> None:
    square = pe.Waveform(4, wave="square", frequencies="one")
    # 1 radian per token: tokens 0 and 1 lie in the same quarter of a turn.
    assert measure.uniqueness(measure.position_table(square, 64)).collision == (0, 1)


def test_boundedness_of_integers_and_of_waves() -> None:
    exact(measure.boundedness(measure.position_table(pe.Ordinal(), 50)), torch.arange(50).double())
    waves = measure.boundedness(measure.position_table(pe.Sinusoidal(16), 500))
    assert (waves <= 1).all()
    assert (waves.diff() >= 0).all()


def test_the_largest_number_of_any_column_counts() -> None:
    measured = measure.boundedness(torch.tensor([[0.0, -3.0], [1.0, 2.0], [5.0, 0.0]]))
    assert measured.tolist() == [3, 3, 5]


@pytest.mark.parametrize("step", [1, 3, 7])
def test_the_shift_matrix_of_a_sinusoid_turns_each_pair(step: int) -> None:
    encoding = pe.Sinusoidal(6, base=10.0)
    measured = measure.shift(measure.position_table(encoding, 200), step)
    turns = []
    for f in encoding.frequencies().tolist():
        u, v = math.cos(f * step), math.sin(f * step)
        turns.append(torch.tensor([[u, v], [-v, u]], dtype=torch.float64))
    exact(measured.matrix, torch.block_diag(*turns), 1e-10)
    assert measured.residual < 1e-13


def test_many_slow_pairs_still_have_a_shift_matrix() -> None:
    table = measure.position_table(pe.Sinusoidal(128), 300)
    assert measure.shift(table, 5).residual < 1e-12


@pytest.mark.parametrize(
    "encoding",
    [
        pe.Waveform(6, wave="triangle", base=10.0),
        pe.Waveform(6, pairing="single", base=10.0),
        pe.Waveform(6, pairing="mismatched", base=10.0),
        pe.Sinusoidal(5, base=10.0),
        pe.Binary(8),
    ],
    ids=repr,
)
def test_what_has_no_shift_matrix_leaves_a_residual(encoding: Encoding) -> None:
    assert measure.shift(measure.position_table(encoding, 200)).residual > 0.01


def test_a_random_table_has_no_shift_matrix() -> None:
    """Least squares with c of n degrees of freedom leaves sqrt(1 - c/n) of noise."""
    measured = measure.shift(drawn(2001, 20))
    assert measured.residual == pytest.approx(math.sqrt(1 - 20 / 2000), abs=0.01)


def test_a_shift_needs_more_rows_than_columns() -> None:
    assert measure.shift(torch.zeros(10, 3)).residual == 0
    for rows, step in ((6, 1), (10, 0), (10, 5)):
        with pytest.raises(ShapeError, match="more than 5 pairs of rows"):
            measure.shift(drawn(rows, 5), step)


def test_inner_products_of_a_sinusoid_are_a_sum_of_cosines() -> None:
    encoding = pe.Sinusoidal(16)
    measured = measure.inner_products(measure.position_table(encoding, 40))
    for i, j in ((0, 0), (3, 30), (39, 2)):
        expected = sum(math.cos((i - j) * f) for f in encoding.frequencies().tolist())
        assert measured[i, j].item() == pytest.approx(expected, abs=1e-12)
    exact(measured[7], measure.cosine_sum(encoding.frequencies(), torch.arange(40) - 7))
    assert measure.direction_sensitivity(measured) < 1e-12
    projected = measure.inner_products(
        measure.position_table(encoding, 40), drawn(16, 8), drawn(16, 8, seed=1)
    )
    assert measure.direction_sensitivity(projected) > 1
    assert measure.by_distance(projected).spread.max() > 1


def test_the_resolution_of_alibi_is_its_slope() -> None:
    encoding = pe.ALiBi(8)
    rows = measure.distance_table(encoding, 600)
    for dtype, whole in ((torch.float64, 599), (torch.bfloat16, 256)):
        steps = measure.resolution(rows.T[..., None], dtype)
        assert steps.shape == (8, 599)
        slopes = torch.tensor(encoding.slope_values(), dtype=torch.float64)
        exact(steps[:, :whole], slopes[:, None].expand(-1, whole))
    # Between 256 and 512 bfloat16 has no odd numbers: steps are 0 or two slopes.
    assert set((steps[0, 256:511] / slopes[0]).tolist()) == {0.0, 2.0}


def test_the_resolution_of_a_sinusoid_is_the_same_everywhere() -> None:
    """|PE[p + 1] - PE[p]|^2 = sum of 2 - 2 cos f."""
    encoding = pe.Sinusoidal(16)
    expected = (2 - 2 * encoding.frequencies().cos()).sum().sqrt()
    exact(measure.resolution(measure.position_table(encoding, 99)), expected.expand(98))


def test_position_tables_are_what_is_embedded() -> None:
    for encoding in (pe.Sinusoidal(6), pe.Learned(6, 9), pe.Waveform(6), pe.Binary(6)):
        zeros = torch.zeros(1, 9, 6, dtype=torch.float64)
        exact(measure.position_table(encoding, 9), encoding.embed(zeros, pe.Positions.build(9))[0])
    exact(measure.position_table(Bumps(), 5), torch.tensor([[0.0], [1], [2], [0], [1]]).double())
    ids = torch.tensor([5, 5, 900])
    at = measure.position_table(pe.Sinusoidal(6), ids)
    exact(at, measure.position_table(pe.Sinusoidal(6), 901)[ids])


def test_a_rotary_position_is_a_turned_key_of_ones() -> None:
    encoding = pe.Rotary(12, base=50.0, layout="interleaved", rotary_dim=8)
    ones = torch.ones(1, 1, 20, 12, dtype=torch.float64)
    _, k = pe.rotate(ones, ones, encoding)
    exact(measure.position_table(encoding, 20), k[0, 0, :, :8])
    assert measure.shift(measure.position_table(encoding, 60)).residual < 1e-12


def test_distance_tables_of_biases_are_the_biases() -> None:
    alibi, t5 = pe.ALiBi(4), pe.T5Bias(4, buckets=8, max_distance=20)
    back = torch.arange(30)
    slopes = torch.tensor(alibi.slope_values()).double()
    exact(measure.distance_table(alibi, 30), -back[:, None] * slopes)
    exact(measure.distance_table(t5, 30), t5.weight.detach().double()[t5.bucket(-back)])
    assert measure.uniqueness(measure.distance_table(t5, 30)).distinct == 8


def test_distance_tables_of_vectors_are_their_rows() -> None:
    encoding = pe.Shaw(4, clip=3)
    assert encoding.keys_weight is not None
    assert encoding.values_weight is not None
    row = 3 - torch.arange(9).clamp(max=3)
    both = torch.cat((encoding.keys_weight[row], encoding.values_weight[row]), dim=-1)
    exact(measure.distance_table(encoding, 9), both.detach().double())


def test_distance_tables_of_rotations_are_cos_and_sin() -> None:
    back = torch.arange(9)[:, None]
    encoding = pe.Rotary(8, base=30.0)
    angle = back * encoding.frequencies()
    exact(measure.distance_table(encoding, 9), torch.cat((angle.cos(), angle.sin()), dim=-1))
    near = pe.ReRoPE(8, window=4, base=30.0)
    clipped = back.clamp(max=4) * encoding.frequencies()
    expected = torch.cat((clipped.cos(), clipped.sin()), dim=-1)
    exact(measure.distance_table(near, 9), expected)
    fading = pe.XPos(8, scale_base=8.0, base=30.0)
    zeta = ((torch.arange(4).double() / 4 + 0.4) / 1.4) ** (back / 8.0)
    expected = torch.cat((angle.cos() * zeta, angle.sin() * zeta), dim=-1)
    exact(measure.distance_table(fading, 9), expected)


def test_distance_tables_of_groups_and_gains() -> None:
    theta = pe.Rotary(8).frequencies()
    # The query at position 8 is in group 4, moved by 3 - 1 towards the groups of keys.
    back = torch.tensor([0, 1, 2, 6 - 2, 6 - 2, 6 - 1, 6 - 1, 6, 6])[:, None]
    measured = measure.distance_table(pe.SelfExtend(8, window=3, group=2), 9)
    exact(measured, torch.cat(((back * theta).cos(), (back * theta).sin()), dim=-1))
    scaling = pe.YaRN(4.0, 64)
    gained = measure.distance_table(pe.Rotary(8, scaling=scaling), 9)
    exact(gained[0, :4], torch.full((4,), scaling.gain**2, dtype=torch.float64))


def test_tables_say_which_other_table_to_take() -> None:
    for encoding in (pe.ALiBi(4), pe.NoPE(), pe.ReRoPE(8, window=3)):
        with pytest.raises(UnsupportedError, match="distance_table has what it says"):
            measure.position_table(encoding, 8)
    with pytest.raises(UnsupportedError, match="it changes embeddings, by position_table"):
        measure.distance_table(pe.Sinusoidal(8), 8)
    for encoding in (pe.NoPE(), pe.CoPE(8), pe.ForgetGate(8, 2), pe.SlidingWindow(3)):
        with pytest.raises(UnsupportedError, match="says nothing of a distance"):
            measure.distance_table(encoding, 8)


def test_matrices_of_tokens_are_told_by_their_products() -> None:
    """On one axis they depend on distances: the exponential of the generator times each."""
    encoding = pe.LieRE(4, block=2, unit=5.0)
    table = pe.measure.distance_table(encoding, 6)
    matrices = encoding.matrices(torch.arange(6))[0, 0].detach()
    wanted = matrices.mT.flatten(1)
    torch.testing.assert_close(table, wanted, rtol=0, atol=1e-12)
