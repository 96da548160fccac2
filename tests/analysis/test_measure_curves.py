"""Curves of scores, against closed forms and plain loops."""

import cmath
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import posenc as pe
from posenc import ShapeError
from posenc.analysis import measure
from tests.support.measured import drawn, exact


def test_rotary_scores_of_ones_are_twice_the_sum_of_cosines() -> None:
    encoding = pe.Rotary(16, base=100.0)
    curve = measure.score_curve(encoding, 300)
    assert curve.shape == (1, 300)
    exact(curve[0], 2 * measure.cosine_sum(encoding.frequencies(), torch.arange(300)))
    measured = measure.decay(curve[0])
    assert not measured.monotone
    assert len(measured.crossings) > 10
    # Between zeros the sign does not change.
    signs = curve[0][: int(measured.crossings[0]) + 1].sign()
    assert (signs == 1).all()
    assert curve[0, math.ceil(measured.crossings[0])] < 0


def test_the_bound_of_roformer_by_plain_sums() -> None:
    theta = pe.Rotary(16).frequencies()
    measured = measure.abel_bound(theta, torch.tensor([0, 7, 40]))
    for column, k in enumerate((0, 7, 40)):
        sums, total = [], 0j
        for f in theta.tolist():
            total += cmath.exp(1j * k * f)
            sums.append(abs(total))
        assert measured[column].item() == pytest.approx(sum(sums) / 8, abs=1e-12)
    assert measured[0] == pytest.approx(4.5)


def test_no_score_exceeds_the_bound_of_roformer() -> None:
    encoding, q, k = pe.Rotary(16), drawn(1, 16), drawn(1, 16, seed=1)
    curve = measure.score_curve(encoding, 200, q, k)[0].abs()
    h = torch.complex(q[0, :8], q[0, 8:]) * torch.complex(k[0, :8], k[0, 8:]).conj()
    steps = torch.cat((h, torch.zeros(1))).diff().abs().max()
    bound = steps * 8 * measure.abel_bound(encoding.frequencies(), torch.arange(200))
    assert (curve <= bound + 1e-12).all()
    # At distance 0 a constant h meets a sharp bound only in its last step.
    assert (bound[0] >= curve[0]).item()


def test_a_curve_made_by_hand() -> None:
    measured = measure.decay(torch.tensor([3.0, 1.0, 2.0, -2.0, 0.0, -1.0]))
    exact(measured.upper, torch.tensor([3.0, 2, 2, 0, 0, -1]))
    exact(measured.lower, torch.tensor([-2.0, -2, -2, -2, -1, -1]))
    assert measured.crossings.tolist() == [2.5, 4.0]
    assert measured.rises.tolist() == [1, 3]
    assert not measured.monotone


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=20))
def test_envelopes_enclose_and_are_monotone(values: list[float]) -> None:
    curve = torch.tensor(values, dtype=torch.float64)
    measured = measure.decay(curve)
    assert ((measured.lower <= curve) & (curve <= measured.upper)).all()
    assert (measured.upper.diff() <= 0).all()
    assert (measured.lower.diff() >= 0).all()
    for n in range(len(values)):
        assert measured.upper[n] == max(values[n:])
        assert measured.lower[n] == min(values[n:])


def test_hidden_keys_are_left_out_of_a_decay() -> None:
    measured = measure.decay(torch.tensor([2.0, 1.0, -torch.inf, -torch.inf, -1.0, -torch.inf]))
    assert measured.monotone
    assert measured.crossings.tolist() == [2.5]
    assert measured.lower.tolist() == [-1.0] * 5 + [torch.inf]
    assert measured.upper.tolist() == [2.0, 1.0, -1.0, -1.0, -1.0, -torch.inf]
    assert measure.decay(torch.full((3,), -torch.inf)).monotone
    windowed = measure.decay(measure.score_curve(pe.SlidingWindow(3), 9)[0])
    assert windowed.monotone
    assert len(windowed.crossings) == 0


def test_decay_of_biases() -> None:
    for encoding in (pe.ALiBi(4), pe.KERPLE(4)):
        curves = measure.score_curve(encoding, 100)
        exact(curves - curves[:, :1], measure.distance_table(encoding, 100).T, 1e-6)
        assert all(measure.decay(curve).monotone for curve in curves)
    t5 = pe.T5Bias(1, buckets=4, max_distance=8)
    with torch.no_grad():
        t5.weight.copy_(torch.tensor([[0.0], [1.0], [-1.0], [-2.0]]))
    assert measure.decay(measure.score_curve(t5, 20)[0]).rises.tolist() == [0]


def test_rounding_is_no_rise() -> None:
    assert measure.decay(torch.tensor([1e6, 1e6 + 1e-8], dtype=torch.float64)).monotone
    assert measure.decay(torch.tensor([0.0, 1e-8], dtype=torch.float64)).rises.tolist() == [0]


def test_direction_of_one_turning_pair() -> None:
    """s(i, j) - s(j, i) = 2 Im(q conj(k)) sin((j - i) f), up to its sign."""
    encoding, q, k = pe.Rotary(2), drawn(1, 2), drawn(1, 2, seed=1)
    measured = measure.direction_sensitivity(measure.token_scores(encoding, 30, q, k))
    product = complex(*q[0].tolist()) * complex(*k[0].tolist()).conjugate()
    expected = max(abs(2 * product.imag * math.sin(n)) for n in range(30))
    assert measured.item() == pytest.approx(expected, abs=1e-12)
    assert measure.direction_sensitivity(measure.token_scores(encoding, 30, q, q)) < 1e-12


def test_direction_of_two_sided_slopes() -> None:
    plain, sided = pe.ALiBi(4), pe.ALiBi(4, future=3.0)
    assert (measure.direction_sensitivity(measure.token_scores(plain, 11)) == 0).all()
    slopes = torch.tensor(plain.slope_values()).double()
    measured = measure.direction_sensitivity(measure.token_scores(sided, 11))
    exact(measured, 2 * slopes * 10)
    # A causal mask leaves no two tokens that see each other.
    causal = measure.token_scores(sided, pe.Positions.build(11, causal=True))
    assert (measure.direction_sensitivity(causal) == 0).all()


@given(st.integers(1, 7), st.integers(0, 1000))
def test_scores_by_distance_as_plain_loops_find_them(length: int, seed: int) -> None:
    matrix = drawn(length, length, seed=seed)
    hidden = torch.ones(length, length).triu(1).bool()
    matrix = matrix.masked_fill(hidden & (seed % 2 == 1), -torch.inf)
    measured = measure.by_distance(matrix)
    assert measured.distance.tolist() == list(range(1 - length, length))
    for n, step in enumerate(range(1 - length, length)):
        entries = [matrix[i, i + step] for i in range(length) if 0 <= i + step < length]
        seen = [entry.item() for entry in entries if entry > -torch.inf]
        if not seen:
            assert measured.mean[n].isnan()
            assert measured.spread[n].isnan()
            continue
        assert measured.mean[n].item() == pytest.approx(sum(seen) / len(seen))
        assert measured.spread[n].item() == pytest.approx(max(seen) - min(seen))


def test_relative_encodings_spread_nowhere() -> None:
    q, k = drawn(4, 16), drawn(4, 16, seed=1)
    for encoding in (pe.Rotary(16), pe.T5Bias(4), pe.ALiBi(4)):
        assert measure.by_distance(measure.token_scores(encoding, 30, q, k)).spread.max() < 1e-12
    log_n = pe.Temperature("log_n", original_length=4)
    assert measure.by_distance(measure.token_scores(log_n, 30, q, k)).spread.max() > 1


@pytest.mark.usefixtures("unhooked")
def test_scores_of_every_token_are_needed() -> None:
    for of in (measure.by_distance, measure.direction_sensitivity):
        with pytest.raises(ShapeError, match="every token must be query and key"):
            of(drawn(3, 4))
