"""What is measured, against closed forms, plain loops and cases made by hand."""

import cmath
import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import posenc as pe
from posenc import Encoding, PositionsError, SettingError, ShapeError, UnsupportedError
from posenc.analysis import measure
from posenc.analysis.toy_models import GRUReader, TextCNN, TransformerReader
from posenc.encodings.scaling import Scaling
from posenc.terms import Mask, Term, Window


def exact(actual: Tensor, expected: Tensor, atol: float = 1e-12) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=atol, check_dtype=False)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


class Bumps(Encoding):
    """A stranger's: it only embeds, and derives from nothing else of posenc."""

    name = "bumps"
    family = "absolute"

    def embed(self, x: Tensor, positions: object, *, layer: int = 0) -> Tensor:
        assert isinstance(positions, pe.Positions)
        return x + (positions.queries.position.double() % 3).view(1, -1, 1).to(x.dtype)


class Windowed(pe.Rotary):
    """A stranger's: a rotation and a window in one."""

    def lower(self, *given: object, **named: object) -> tuple[Term, ...]:
        return (*super().lower(*given, **named), Mask(Window(5)))


# Tables.


@given(st.lists(st.lists(st.integers(0, 2), min_size=2, max_size=2), min_size=1, max_size=12))
def test_uniqueness_counts_as_a_set_does(rows: list[list[int]]) -> None:
    found = measure.uniqueness(torch.tensor(rows).double())
    as_tuples = [tuple(row) for row in rows]
    assert (found.rows, found.distinct) == (len(rows), len(set(as_tuples)))
    repeats = [i for i, row in enumerate(as_tuples) if row in as_tuples[:i]]
    expected = (as_tuples.index(as_tuples[repeats[0]]), repeats[0]) if repeats else None
    assert found.collision == expected


def test_integers_in_bfloat16_collide_at_257() -> None:
    table = measure.position_table(pe.Ordinal(), 4097)
    assert measure.uniqueness(table).collision is None
    # 8 bits: 256 distinct to 256, then 128 in every further octave.
    found = measure.uniqueness(table, torch.bfloat16)
    assert (found.distinct, found.collision) == (257 + 4 * 128, (256, 257))
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
    found = measure.boundedness(torch.tensor([[0.0, -3.0], [1.0, 2.0], [5.0, 0.0]]))
    assert found.tolist() == [3, 3, 5]


@pytest.mark.parametrize("step", [1, 3, 7])
def test_the_shift_matrix_of_a_sinusoid_turns_each_pair(step: int) -> None:
    made = pe.Sinusoidal(6, base=10.0)
    found = measure.shift(measure.position_table(made, 200), step)
    turns = []
    for f in made.frequencies().tolist():
        u, v = math.cos(f * step), math.sin(f * step)
        turns.append(torch.tensor([[u, v], [-v, u]], dtype=torch.float64))
    exact(found.matrix, torch.block_diag(*turns), 1e-10)
    assert found.residual < 1e-13


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
    found = measure.shift(drawn(2001, 20))
    assert found.residual == pytest.approx(math.sqrt(1 - 20 / 2000), abs=0.01)


def test_a_shift_needs_more_rows_than_columns() -> None:
    assert measure.shift(torch.zeros(10, 3)).residual == 0
    for rows, step in ((6, 1), (10, 0), (10, 5)):
        with pytest.raises(ShapeError, match="more than 5 pairs of rows"):
            measure.shift(drawn(rows, 5), step)


def test_inner_products_of_a_sinusoid_are_a_sum_of_cosines() -> None:
    made = pe.Sinusoidal(16)
    found = measure.inner_products(measure.position_table(made, 40))
    for i, j in ((0, 0), (3, 30), (39, 2)):
        expected = sum(math.cos((i - j) * f) for f in made.frequencies().tolist())
        assert found[i, j].item() == pytest.approx(expected, abs=1e-12)
    exact(found[7], measure.cosine_sum(made.frequencies(), torch.arange(40) - 7))
    assert measure.direction_sensitivity(found) < 1e-12
    projected = measure.inner_products(
        measure.position_table(made, 40), drawn(16, 8), drawn(16, 8, seed=1)
    )
    assert measure.direction_sensitivity(projected) > 1
    assert measure.by_distance(projected).spread.max() > 1


def test_the_resolution_of_alibi_is_its_slope() -> None:
    made = pe.ALiBi(8)
    rows = measure.distance_table(made, 600)
    for dtype, whole in ((torch.float64, 599), (torch.bfloat16, 256)):
        steps = measure.resolution(rows.T[..., None], dtype)
        assert steps.shape == (8, 599)
        slopes = torch.tensor(made.slope_values(), dtype=torch.float64)
        exact(steps[:, :whole], slopes[:, None].expand(-1, whole))
    # Between 256 and 512 bfloat16 has no odd numbers: steps are 0 or two slopes.
    assert set((steps[0, 256:511] / slopes[0]).tolist()) == {0.0, 2.0}


def test_the_resolution_of_a_sinusoid_is_the_same_everywhere() -> None:
    """|PE[p + 1] - PE[p]|^2 = sum of 2 - 2 cos f."""
    made = pe.Sinusoidal(16)
    expected = (2 - 2 * made.frequencies().cos()).sum().sqrt()
    exact(measure.resolution(measure.position_table(made, 99)), expected.expand(98))


# Vectors.


def test_position_tables_are_what_is_embedded() -> None:
    for made in (pe.Sinusoidal(6), pe.Learned(6, 9), pe.Waveform(6), pe.Binary(6)):
        zeros = torch.zeros(1, 9, 6, dtype=torch.float64)
        exact(measure.position_table(made, 9), made.embed(zeros, pe.Positions.build(9))[0])
    exact(measure.position_table(Bumps(), 5), torch.tensor([[0.0], [1], [2], [0], [1]]).double())
    ids = torch.tensor([5, 5, 900])
    at = measure.position_table(pe.Sinusoidal(6), ids)
    exact(at, measure.position_table(pe.Sinusoidal(6), 901)[ids])


def test_a_rotary_position_is_a_turned_key_of_ones() -> None:
    made = pe.Rotary(12, base=50.0, layout="interleaved", rotary_dim=8)
    ones = torch.ones(1, 1, 20, 12, dtype=torch.float64)
    _, k = pe.rotate(ones, ones, made)
    exact(measure.position_table(made, 20), k[0, 0, :, :8])
    assert measure.shift(measure.position_table(made, 60)).residual < 1e-12


def test_distance_tables_of_biases_are_the_biases() -> None:
    alibi, t5 = pe.ALiBi(4), pe.T5Bias(4, buckets=8, max_distance=20)
    back = torch.arange(30)
    slopes = torch.tensor(alibi.slope_values()).double()
    exact(measure.distance_table(alibi, 30), -back[:, None] * slopes)
    exact(measure.distance_table(t5, 30), t5.weight.detach().double()[t5.bucket(-back)])
    assert measure.uniqueness(measure.distance_table(t5, 30)).distinct == 8


def test_distance_tables_of_vectors_are_their_rows() -> None:
    made = pe.Shaw(4, clip=3)
    assert made.keys_weight is not None
    assert made.values_weight is not None
    row = 3 - torch.arange(9).clamp(max=3)
    both = torch.cat((made.keys_weight[row], made.values_weight[row]), dim=-1)
    exact(measure.distance_table(made, 9), both.detach().double())


def test_distance_tables_of_rotations_are_cos_and_sin() -> None:
    back = torch.arange(9)[:, None]
    made = pe.Rotary(8, base=30.0)
    angle = back * made.frequencies()
    exact(measure.distance_table(made, 9), torch.cat((angle.cos(), angle.sin()), dim=-1))
    near = pe.ReRoPE(8, window=4, base=30.0)
    clipped = back.clamp(max=4) * made.frequencies()
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
    found = measure.distance_table(pe.SelfExtend(8, window=3, group=2), 9)
    exact(found, torch.cat(((back * theta).cos(), (back * theta).sin()), dim=-1))
    scaling = pe.YaRN(4.0, 64)
    gained = measure.distance_table(pe.Rotary(8, scaling=scaling), 9)
    exact(gained[0, :4], torch.full((4,), scaling.gain**2, dtype=torch.float64))


def test_tables_say_which_other_table_to_take() -> None:
    for made in (pe.ALiBi(4), pe.NoPE(), pe.ReRoPE(8, window=3)):
        with pytest.raises(UnsupportedError, match="distance_table has what it says"):
            measure.position_table(made, 8)
    with pytest.raises(UnsupportedError, match="it changes embeddings, by position_table"):
        measure.distance_table(pe.Sinusoidal(8), 8)
    for made in (pe.NoPE(), pe.CoPE(8), pe.ForgetGate(8, 2), pe.SlidingWindow(3)):
        with pytest.raises(UnsupportedError, match="says nothing of a distance"):
            measure.distance_table(made, 8)


# Curves.


def test_rotary_scores_of_ones_are_twice_the_sum_of_cosines() -> None:
    made = pe.Rotary(16, base=100.0)
    curve = measure.score_curve(made, 300)
    assert curve.shape == (1, 300)
    exact(curve[0], 2 * measure.cosine_sum(made.frequencies(), torch.arange(300)))
    found = measure.decay(curve[0])
    assert not found.monotone
    assert len(found.crossings) > 10
    # Between zeros the sign does not change.
    signs = curve[0][: int(found.crossings[0]) + 1].sign()
    assert (signs == 1).all()
    assert curve[0, math.ceil(found.crossings[0])] < 0


def test_the_bound_of_roformer_by_plain_sums() -> None:
    theta = pe.Rotary(16).frequencies()
    found = measure.abel_bound(theta, torch.tensor([0, 7, 40]))
    for column, k in enumerate((0, 7, 40)):
        sums, total = [], 0j
        for f in theta.tolist():
            total += cmath.exp(1j * k * f)
            sums.append(abs(total))
        assert found[column].item() == pytest.approx(sum(sums) / 8, abs=1e-12)
    assert found[0] == pytest.approx(4.5)


def test_no_score_exceeds_the_bound_of_roformer() -> None:
    made, q, k = pe.Rotary(16), drawn(1, 16), drawn(1, 16, seed=1)
    curve = measure.score_curve(made, 200, q, k)[0].abs()
    h = torch.complex(q[0, :8], q[0, 8:]) * torch.complex(k[0, :8], k[0, 8:]).conj()
    steps = torch.cat((h, torch.zeros(1))).diff().abs().max()
    bound = steps * 8 * measure.abel_bound(made.frequencies(), torch.arange(200))
    assert (curve <= bound + 1e-12).all()
    # At distance 0 a constant h meets a sharp bound only in its last step.
    assert (bound[0] >= curve[0]).item()


def test_a_curve_made_by_hand() -> None:
    found = measure.decay(torch.tensor([3.0, 1.0, 2.0, -2.0, 0.0, -1.0]))
    exact(found.upper, torch.tensor([3.0, 2, 2, 0, 0, -1]))
    exact(found.lower, torch.tensor([-2.0, -2, -2, -2, -1, -1]))
    assert found.crossings.tolist() == [2.5, 4.0]
    assert found.rises.tolist() == [1, 3]
    assert not found.monotone


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=20))
def test_envelopes_enclose_and_are_monotone(values: list[float]) -> None:
    curve = torch.tensor(values, dtype=torch.float64)
    found = measure.decay(curve)
    assert ((found.lower <= curve) & (curve <= found.upper)).all()
    assert (found.upper.diff() <= 0).all()
    assert (found.lower.diff() >= 0).all()
    for n in range(len(values)):
        assert found.upper[n] == max(values[n:])
        assert found.lower[n] == min(values[n:])


def test_hidden_keys_are_left_out_of_a_decay() -> None:
    found = measure.decay(torch.tensor([2.0, 1.0, -torch.inf, -torch.inf, -1.0, -torch.inf]))
    assert found.monotone
    assert found.crossings.tolist() == [2.5]
    assert found.lower.tolist() == [-1.0] * 5 + [torch.inf]
    assert found.upper.tolist() == [2.0, 1.0, -1.0, -1.0, -1.0, -torch.inf]
    assert measure.decay(torch.full((3,), -torch.inf)).monotone
    windowed = measure.decay(measure.score_curve(pe.SlidingWindow(3), 9)[0])
    assert windowed.monotone
    assert len(windowed.crossings) == 0


def test_decay_of_biases() -> None:
    for made in (pe.ALiBi(4), pe.KERPLE(4)):
        curves = measure.score_curve(made, 100)
        exact(curves - curves[:, :1], measure.distance_table(made, 100).T, 1e-6)
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
    made, q, k = pe.Rotary(2), drawn(1, 2), drawn(1, 2, seed=1)
    found = measure.direction_sensitivity(measure.token_scores(made, 30, q, k))
    product = complex(*q[0].tolist()) * complex(*k[0].tolist()).conjugate()
    expected = max(abs(2 * product.imag * math.sin(n)) for n in range(30))
    assert found.item() == pytest.approx(expected, abs=1e-12)
    assert measure.direction_sensitivity(measure.token_scores(made, 30, q, q)) < 1e-12


def test_direction_of_two_sided_slopes() -> None:
    plain, sided = pe.ALiBi(4), pe.ALiBi(4, future=3.0)
    assert (measure.direction_sensitivity(measure.token_scores(plain, 11)) == 0).all()
    slopes = torch.tensor(plain.slope_values()).double()
    found = measure.direction_sensitivity(measure.token_scores(sided, 11))
    exact(found, 2 * slopes * 10)
    # A causal mask leaves no two tokens that see each other.
    causal = measure.token_scores(sided, pe.Positions.build(11, causal=True))
    assert (measure.direction_sensitivity(causal) == 0).all()


@given(st.integers(1, 7), st.integers(0, 1000))
def test_scores_by_distance_as_plain_loops_find_them(length: int, seed: int) -> None:
    matrix = drawn(length, length, seed=seed)
    hidden = torch.ones(length, length).triu(1).bool()
    matrix = matrix.masked_fill(hidden & (seed % 2 == 1), -torch.inf)
    found = measure.by_distance(matrix)
    assert found.distance.tolist() == list(range(1 - length, length))
    for n, step in enumerate(range(1 - length, length)):
        entries = [matrix[i, i + step] for i in range(length) if 0 <= i + step < length]
        seen = [entry.item() for entry in entries if entry > -torch.inf]
        if not seen:
            assert found.mean[n].isnan()
            assert found.spread[n].isnan()
            continue
        assert found.mean[n].item() == pytest.approx(sum(seen) / len(seen))
        assert found.spread[n].item() == pytest.approx(max(seen) - min(seen))


def test_relative_encodings_spread_nowhere() -> None:
    q, k = drawn(4, 16), drawn(4, 16, seed=1)
    for made in (pe.Rotary(16), pe.T5Bias(4), pe.ALiBi(4)):
        assert measure.by_distance(measure.token_scores(made, 30, q, k)).spread.max() < 1e-12
    log_n = pe.Temperature("log_n", original_length=4)
    assert measure.by_distance(measure.token_scores(log_n, 30, q, k)).spread.max() > 1


@pytest.mark.usefixtures("unhooked")
def test_scores_of_every_token_are_needed() -> None:
    for of in (measure.by_distance, measure.direction_sensitivity):
        with pytest.raises(ShapeError, match="every token must be query and key"):
            of(drawn(3, 4))


# Rotations.


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
    made, length = pe.Rotary(32, scaling=scaling), 512
    rule = scaling or Scaling()
    expected = [rule.reference(i, 10_000.0, 32, length) for i in range(16)]
    found = measure.frequencies(made, length)
    exact(found[0], torch.tensor(expected, dtype=torch.float64), 1e-13)
    waves, turns = measure.wavelengths(found)[0], measure.turns(found, length)[0]
    for f, wave, turned in zip(expected, waves.tolist(), turns.tolist(), strict=True):
        assert wave == (pytest.approx(2 * math.pi / f) if f else math.inf)
        assert turned == pytest.approx(512 * f / (2 * math.pi))


def test_frequencies_of_other_rotations() -> None:
    plain = pe.Rotary(8).frequencies()
    assert torch.equal(measure.frequencies(pe.Sinusoidal(8))[0], pe.Sinusoidal(8).frequencies())
    for made in (pe.XPos(8), pe.LMInfinite(8, window=4), pe.MRoPE(8, (2, 1, 1))):
        exact(measure.frequencies(made)[0], plain)
    axial = pe.AxialRotary(8, grid=(3, 3))
    exact(measure.frequencies(axial)[0], pe.Rotary(4).frequencies().repeat(2))
    assert measure.frequencies(pe.LearnedRotary(8, heads=3)).shape == (3, 4)
    for made in (pe.ALiBi(4), pe.Learned(8, 8), pe.NoPE()):
        with pytest.raises(UnsupportedError, match="give a rotary encoding"):
            measure.frequencies(made)
    with pytest.raises(SettingError, match=r"turns\(length=0\)"):
        measure.turns(plain, 0)


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


# Whole models.

WORDS = torch.randint(19, (4, 10), generator=torch.Generator().manual_seed(0))
ORDERS = measure.permutations(10, 6)


def reader(make: Callable[[], torch.nn.Module]) -> torch.nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make().double().eval()


@pytest.mark.parametrize(
    ("make", "sensitive"),
    [
        (lambda: GRUReader(19, 16), True),
        (lambda: TextCNN(19, 16), True),
        (lambda: TransformerReader(19, 16), False),
        (lambda: TransformerReader(19, 16, pe.NoPE()), False),
        (lambda: TransformerReader(19, 16, pe.NoPE(), causal=True), True),
        (lambda: TransformerReader(19, 16, pe.Sinusoidal(16)), True),
        (lambda: TransformerReader(19, 16, pe.Rotary(4)), True),
        (lambda: TransformerReader(19, 16, pe.ALiBi(4)), True),
        (lambda: TransformerReader(19, 16, pe.ALiBi(4), causal=True), True),
        # The plain position is gone after LayerNorm, but the last norm sees it in the residual.
        (lambda: TransformerReader(19, 16, pe.Ordinal()), False),
    ],
)
def test_who_reads_the_order(make: Callable[[], torch.nn.Module], sensitive: bool) -> None:
    model = reader(make)
    found = measure.permutation_sensitivity(model, WORDS, ORDERS)
    assert found.shape == (6,)
    assert (found > 1e-6).all() if sensitive else (found == 0).all()


def test_the_mean_hides_what_tokens_tell() -> None:
    model = reader(lambda: TransformerReader(19, 16, pe.NoPE()))
    assert isinstance(model, TransformerReader)
    assert (measure.equivariance_error(model.model, WORDS, ORDERS) == 0).all()
    # Left where they are, the outputs of tokens change places with them.
    assert (measure.permutation_sensitivity(model.model, WORDS, ORDERS) > 0.1).all()
    positions = torch.arange(10.0)[:, None]
    assert (
        measure.permutation_sensitivity(
            lambda x: (x + positions).mean(1), WORDS[..., None].double(), ORDERS
        )
        == 0
    ).all()
    found = measure.equivariance_error(lambda x: x + positions, WORDS[..., None].double(), ORDERS)
    assert (found > 0.01).all()


def test_the_size_of_a_change() -> None:
    x = torch.tensor([[3.0, 4.0, 5.0]])
    orders = torch.tensor([[1, 0, 2], [0, 2, 1]])
    found = measure.permutation_sensitivity(lambda x: x[:, 0], x, orders)
    exact(found, torch.tensor([1 / 3, 0.0]).double(), 1e-7)


def test_orders_must_fit() -> None:
    assert all(sorted(order.tolist()) == list(range(10)) for order in ORDERS)
    assert not (torch.arange(10) == ORDERS).all(dim=-1).any()
    assert measure.permutations(2, 3).tolist() == [[1, 0]] * 3
    with pytest.raises(ShapeError, match="two tokens at least"):
        measure.permutations(1)
    for of in (measure.permutation_sensitivity, measure.equivariance_error):
        with pytest.raises(ShapeError, match="rearranges its t tokens"):
            of(lambda x: x, WORDS[:, :9], ORDERS)


# Budgets.


def rows_of(mask: Tensor) -> list[int]:
    return mask.flatten(1).any(dim=-1).nonzero().flatten().tolist()


def test_rows_beyond_training_are_untrained() -> None:
    card = measure.budget(pe.Learned(8, 40), 16, 32)
    assert card.parameters == 320
    assert rows_of(card.untrained["weight"]) == list(range(16, 32))
    assert rows_of(card.idle["weight"]) == list(range(32, 40))
    assert (card.largest_position, card.largest_distance) == (15, 15)
    assert card.unseen.tolist() == [False] * 16 + [True] * 16
    assert "untrained at 32: weight, 16 of 40 rows (16 to 31)" in str(card)
    assert "never read at 32: weight, 8 of 40 rows (32 to 39)" in str(card)
    with pytest.raises(PositionsError, match="max_length >= 41"):
        measure.budget(pe.Learned(8, 40), 16, 41)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_buckets_that_training_never_reached(bidirectional: bool) -> None:
    made = pe.T5Bias(4, bidirectional=bidirectional)
    card = measure.budget(made, 30, 90, causal=not bidirectional)

    def buckets(length: int) -> set[int]:
        ahead = length if bidirectional else 1
        return set(made.bucket(torch.arange(1 - length, ahead)).tolist())

    assert set(rows_of(card.untrained["weight"])) == buckets(90) - buckets(30)
    assert set(rows_of(card.idle["weight"])) == set(range(32)) - buckets(90)
    same = {made.bucket(-torch.arange(90))[n].item() in buckets(30) for n in card.unseen.nonzero()}
    assert same == {False}


def test_what_is_shared_by_all_distances_is_trained() -> None:
    for made in (pe.KERPLE(4), pe.ALiBi(4, learned=True), pe.LearnedRotary(8)):
        card = measure.budget(made, 8, 40)
        assert not any(mask.any() for mask in card.untrained.values())
        assert card.unseen.tolist() == [False] * 8 + [True] * 32
    # Only the first two queries stand before the threshold, and tell it what to be.
    fire = measure.budget(pe.FIRE(4, initial_threshold=1.5), 8, 40)
    assert not fire.idle["multiplier"].any()
    assert not fire.untrained["multiplier"].any()
    shaw = measure.budget(pe.Shaw(8, clip=4), 8, 40)
    assert not shaw.unseen.any()
    # Causal: the rows of the future are for nobody.
    assert rows_of(shaw.idle["keys_weight"]) == rows_of(shaw.idle["values_weight"]) == [5, 6, 7, 8]
    assert not measure.budget(pe.Shaw(8, clip=4), 8, 40, causal=False).idle["keys_weight"].any()


def test_counts_of_content_reach_as_far_as_the_text() -> None:
    card = measure.budget(pe.CoPE(16, max_position=24), 8, 16)
    assert card.said_of == "content"
    untrained = card.untrained["weight"].any(dim=-1)[0].nonzero().flatten().tolist()
    assert untrained == list(range(9, 17))


def test_pairs_that_turned_less_than_once() -> None:
    plain, length = pe.Rotary(32), 64
    card = measure.budget(plain, length, 4 * length)
    turned = plain.frequencies() * 63 / (2 * math.pi)
    assert card.turns is not None
    assert card.new_angles is not None
    exact(card.turns[0], turned)
    assert torch.equal(card.new_angles[0], turned < 1)
    short = int((turned < 1).sum())
    assert f"{short} of 16 pairs turn less than once in training, {short} meet new" in str(card)


def test_what_scalings_are_for() -> None:
    """Interpolation brings no new angles; NTK does; zones bring none either."""
    plain = pe.Rotary(32)

    def new(made: Encoding) -> int:
        card = measure.budget(made, 64, 256, trained=plain)
        assert card.new_angles is not None
        return int(card.new_angles.sum())

    assert new(plain) > new(pe.Rotary(32, scaling=pe.NTK(4.0))) > 0
    assert new(pe.Rotary(32, scaling=pe.Linear(4.0))) == 0
    assert new(pe.Rotary(32, scaling=pe.YaRN(4.0, 64, ramp="paper"))) == 0
    assert new(pe.ReRoPE(32, window=32)) == new(pe.LMInfinite(32, window=64)) == 0
    assert not measure.budget(pe.ReRoPE(32, window=32), 64, 256, trained=plain).unseen.any()


def test_distances_that_tokens_see() -> None:
    assert measure.budget(pe.SlidingWindow(5), 16, 32).largest_distance == 4
    card = measure.budget(pe.NoPE(), 16, 32)
    assert (card.parameters, card.said_of) == (0, "content")
    assert not card.unseen.any()
    assert measure.budget(pe.Sinusoidal(8), 1, 1).largest_distance == 0


def test_every_layer_of_floater_is_trained() -> None:
    card = measure.budget(pe.FLOATER(8, 12, layers=2), 6, 12)
    assert not any(mask.any() for mask in (card.untrained | card.idle).values())


def test_lengths_of_a_budget() -> None:
    for trained, length in ((0, 4), (8, 4)):
        with pytest.raises(SettingError, match="1 <= train_length <= length"):
            measure.budget(pe.NoPE(), trained, length)


@pytest.mark.parametrize("kind", pe.encodings().values(), ids=lambda kind: kind.name)
def test_every_encoding_has_a_card_and_keeps_its_weights(kind: type[Encoding]) -> None:
    for example in kind.examples():
        before = [parameter.clone() for parameter in example.parameters()]
        card = measure.budget(example, 4, 9)
        assert str(card)
        assert card.unseen.shape == (9,)
        for parameter, was in zip(example.parameters(), before, strict=True):
            assert torch.equal(parameter, was)
            assert parameter.grad is None
            assert parameter.dtype == was.dtype


# The page of properties.


def test_properties_of_three_encodings() -> None:
    from tools import properties

    sinusoid, alibi = (properties.geometry(properties.drawn(k)) for k in (pe.Sinusoidal, pe.ALiBi))
    assert list(sinusoid.values()) == [
        "`sinusoidal`", "positions", "yes", "1", "yes", "no", "yes", "no", "no", "positions"
    ]  # fmt: skip
    assert list(alibi.values()) == [
        "`alibi`", "distances", "to 256", "65", "-", "yes", "no", "no", "yes", "distances"
    ]  # fmt: skip
    found = properties.use(properties.drawn(pe.LMInfinite))
    assert found["causal only"] == "yes"
    assert found["decodes"] == "raw"
    assert found["linear attention"] == found["SDPA"] == "no"
    lines = properties.table([sinusoid, alibi]).splitlines()
    assert len(lines) == 4
    assert all(line.count("|") == 11 for line in lines)


def test_properties_name_what_is_not_relative() -> None:
    from tools import properties

    claims = {pe.SelfExtend: False, pe.FIRE: False, pe.Rotary: True, pe.ForgetGate: True}
    for kind, claim in claims.items():
        assert properties.relative(properties.drawn(kind)) is claim
