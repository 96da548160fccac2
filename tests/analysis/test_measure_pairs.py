"""Measures that figures are made of, against closed forms and cases made by hand."""

import math

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import SettingError, ShapeError, UnsupportedError
from posenc.analysis import measure


def exact(actual: Tensor, expected: Tensor, atol: float = 1e-12) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=atol, check_dtype=False)


@pytest.mark.parametrize(
    "encoding",
    [
        pe.Sinusoidal(8),
        pe.Sinusoidal(8, layout="half"),
        pe.Sinusoidal(9),
        pe.Sinusoidal(9, layout="half"),
        pe.Sinusoidal(9, layout="half", denominator="tensor2tensor"),
        pe.Rotary(8),
        pe.Rotary(8, layout="interleaved"),
    ],
    ids=repr,
)
def test_pairs_of_sinusoids_and_rotations_lie_on_a_circle(encoding: pe.Encoding) -> None:
    (points,) = measure.pair_points(encoding, 50)
    angle = torch.arange(50)[:, None] * measure.frequencies(encoding)[0, :4]
    exact(points, torch.stack((angle.cos(), angle.sin()), dim=-1))


def test_pairs_carry_the_gain_and_the_scale() -> None:
    rotary = pe.Rotary(8, scaling=pe.YaRN(4.0, 64))
    gain = 0.1 * math.log(4) + 1
    exact(measure.pair_points(rotary, 9).norm(dim=-1), torch.full((1, 9, 4), gain).double(), 1e-6)
    size = measure.pair_points(pe.XPos(8), 9).norm(dim=-1)
    assert bool((size[0, 1:] != size[0, :-1]).all())


def test_other_pairs_are_neighbouring_columns() -> None:
    encoding = pe.Learned(5, max_length=9)
    (points,) = measure.pair_points(encoding, 9)
    exact(points[:, 1, 0], encoding.weight.detach()[:, 3].double())
    exact(points[:, 1, 1], encoding.weight.detach()[:, 2].double())
    assert points.shape == (9, 2, 2)


@pytest.mark.parametrize("encoding", [pe.Ordinal(), pe.ALiBi(4), pe.NoPE()], ids=repr)
def test_what_has_no_pairs_says_so(encoding: pe.Encoding) -> None:
    with pytest.raises(UnsupportedError, match="pair_points"):
        measure.pair_points(encoding, 9)


def test_angles_grow_with_distance_and_wrap() -> None:
    encoding = pe.Rotary(8)
    angles = measure.relative_angles(encoding, 50)[0]
    expected = torch.arange(50)[:, None] * measure.frequencies(encoding)[0]
    exact(angles, expected)
    wrapped = measure.relative_angles(encoding, 50, wrapped=True)[0]
    assert wrapped.abs().max() <= math.pi
    exact(wrapped.cos(), expected.cos())
    exact(wrapped.sin(), expected.sin())
    exact(measure.pair_cosines(encoding, 50)[0], expected.cos())
    exact(measure.relative_angles(pe.Sinusoidal(8), 50)[0], expected)


def test_angles_of_zones_stop_at_the_window() -> None:
    angles = measure.relative_angles(pe.ReRoPE(8, window=5), 20)[0]
    exact(angles[:, 0], torch.arange(20.0).clamp(max=5))
    shrunk = measure.relative_angles(pe.ReRoPE(8, window=5, leak=2.0), 20)[0]
    exact(shrunk[11, 0], torch.tensor(8.0))


@pytest.mark.parametrize("encoding", [pe.ALiBi(4), pe.Ordinal(), pe.NoPE()], ids=repr)
def test_what_does_not_turn_says_so(encoding: pe.Encoding) -> None:
    with pytest.raises(UnsupportedError, match="turns no pairs"):
        measure.relative_angles(encoding, 9)


def test_equal_scores_are_inner_products_or_scores_of_ones() -> None:
    sinusoidal, rotary = pe.Sinusoidal(8), pe.Rotary(8)
    table = measure.position_table(sinusoidal, 12)
    exact(measure.equal_scores(sinusoidal, 12)[0], table @ table.T)
    exact(measure.equal_scores(rotary, 12)[0], 2 * table @ table.T)
    assert measure.equal_scores(pe.ALiBi(4), 12).shape == (4, 12, 12)


def test_the_bias_of_alibi_is_its_slopes() -> None:
    encoding = pe.ALiBi(8)
    measured = measure.position_bias(encoding, 6)
    assert measured.distance.tolist() == list(range(-5, 6))
    slopes = torch.tensor([2.0**-i for i in range(1, 9)])
    exact(measured.values, -slopes[:, None] * measured.distance.abs())


def test_the_bias_of_tables_that_meet_queries_is_their_sum() -> None:
    encoding = pe.Shaw(8, clip=3)
    assert encoding.keys_weight is not None
    measured = measure.position_bias(encoding, 6)
    rows = encoding.keys_weight.detach().double().sum(dim=-1)
    exact(measured.values[0], rows[measured.distance.clamp(-3, 3) + 3], 1e-6)
    assert measure.groups(measured.values.T).tolist() == [0, 0, 0, 1, 2, 3, 4, 5, 6, 6, 6]


def test_the_bias_of_a_causal_encoding_ends_at_the_query() -> None:
    measured = measure.position_bias(pe.ForgetGate(16, heads=4), 6)
    assert measured.distance.tolist() == [-5, -4, -3, -2, -1, 0]
    assert measured.values.shape == (4, 6)
    # Forgetting adds up on the way from the key to the query.
    assert bool((measured.values.diff(dim=-1) > 0).all())


@pytest.mark.parametrize("encoding", [pe.Rotary(8), pe.Sinusoidal(8), pe.NoPE()], ids=repr)
def test_what_adds_nothing_says_so(encoding: pe.Encoding) -> None:
    with pytest.raises(UnsupportedError, match="adds nothing"):
        measure.position_bias(encoding, 6)
    with pytest.raises(ShapeError, match="length=0"):
        measure.position_bias(encoding, 0)


def test_groups_are_counted_as_they_come() -> None:
    table = torch.tensor([[3.0, 1.0], [0.0, 1.0], [3.0, 1.0], [math.nan, 1.0], [0.0, 1.0]])
    assert measure.groups(table).tolist() == [0, 1, 0, 2, 1]
    assert measure.groups(torch.full((3, 1), math.nan)).tolist() == [0, 0, 0]
    # Nan stands for what is not there, not for 0.
    assert measure.groups(torch.tensor([[0.0], [math.nan]])).tolist() == [0, 1]


def test_the_buckets_of_t5_are_found() -> None:
    encoding = pe.T5Bias(4, buckets=12, max_distance=30, bidirectional=True)
    measured = measure.position_bias(encoding, 40)
    groups = measure.groups(measured.values.T)
    buckets = encoding.bucket(measured.distance)
    assert torch.equal(groups[:, None] == groups, buckets[:, None] == buckets)


def test_who_sees_whom() -> None:
    i, j = torch.arange(7)[:, None], torch.arange(7)
    assert torch.equal(measure.visibility(pe.Sinusoidal(8), 7), j <= i)
    assert bool(measure.visibility(pe.NoPE(), 7, causal=False).all())
    assert bool(measure.visibility([], 7, causal=False).all())
    window = measure.visibility(pe.SlidingWindow(3), 7)
    assert torch.equal(window, (j <= i) & (i - j < 3))
    both = measure.visibility([pe.Rotary(8), pe.SlidingWindow(3), pe.Sinks(1)], 7)
    assert torch.equal(both, (j <= i) & ((i - j < 3) | (j < 1)))


def test_a_receptive_field_grows_by_the_window_less_one() -> None:
    window = measure.visibility(pe.SlidingWindow(3), 12)
    needed = measure.receptive_field(window, 3)
    for i in range(12):
        for j in range(12):
            back = i - j
            layers = max(1, math.ceil(back / 2)) if back >= 0 else 0
            assert int(needed[i, j]) == (layers if layers <= 3 else 0)
    with pytest.raises(SettingError, match="layers=0"):
        measure.receptive_field(window, 0)


def test_a_token_reaches_itself_whatever_the_mask() -> None:
    nobody = torch.zeros(3, 3, dtype=torch.bool)
    assert torch.equal(measure.receptive_field(nobody, 4), torch.eye(3).long())
