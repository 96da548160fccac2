"""Figures show the numbers of `measure`."""

import math

import numpy as np
import pytest
import torch
from drawn import FIRST, exact, image_of, line_of, texts
from torch import Tensor

import posenc as pe
from posenc.analysis import measure, plot
from posenc.analysis.plot.gallery import decomposed


def test_a_heatmap_shows_the_vectors_of_positions() -> None:
    encoding = pe.Sinusoidal(16)
    (axes,) = plot.heatmap(encoding, 20).axes
    exact(image_of(axes), measure.position_table(encoding, 20))


def test_a_heatmap_of_what_acts_on_distances_shows_these() -> None:
    encoding = pe.ALiBi(4)
    (axes,) = plot.heatmap(encoding, 20).axes
    exact(image_of(axes), measure.distance_table(encoding, 20))


def test_a_table_is_shown_as_it_is() -> None:
    table = torch.arange(12.0).view(6, 2)
    (axes,) = plot.heatmap(table).axes
    exact(image_of(axes), table)
    assert axes.images[0].get_clim() == (-11.0, 11.0)
    (axes,) = plot.heatmap(table, 3).axes
    exact(image_of(axes), table[:3])


def test_what_is_not_finite_is_left_blank() -> None:
    table = torch.tensor([[0.5, math.inf], [math.nan, -2.0]])
    (axes,) = plot.heatmap(table).axes
    assert image_of(axes).isnan().tolist() == [[False, True], [True, False]]
    assert axes.images[0].get_clim() == (-2.0, 2.0)
    plot.svg(plot.heatmap(torch.full((2, 2), math.nan)))


def test_curves_are_columns() -> None:
    encoding = pe.Sinusoidal(16)
    axes = plot.curves(encoding, 20, dims=(0, 15)).axes
    table = measure.position_table(encoding, 20)
    exact(line_of(axes[0], 1), table[:, 0])
    exact(line_of(axes[1], 1), table[:, 15])


def test_a_circle_is_a_pair_of_dimensions() -> None:
    encoding = pe.Sinusoidal(16)
    circle, beside = plot.circle(encoding, 3, 20).axes
    table = measure.position_table(encoding, 20)
    exact(line_of(beside), table[:, 7])
    exact(line_of(beside, 1), table[:, 6])
    points = torch.from_numpy(np.asarray(circle.collections[0].get_offsets()))
    exact(points, table[:, [7, 6]])


def test_inner_products_come_with_their_envelope_and_pairs() -> None:
    encoding = pe.Rotary(16)
    upper, lower = plot.inner_product(encoding, 40).axes
    curve = measure.score_curve(encoding, 40)[0]
    torch.testing.assert_close(line_of(upper), curve)
    envelope = measure.decay(curve)
    torch.testing.assert_close(line_of(upper, 1), envelope.upper)
    torch.testing.assert_close(line_of(upper, 2), envelope.lower)
    cosines = measure.frequencies(encoding)[0][:, None] * torch.arange(40)
    torch.testing.assert_close(image_of(lower), cosines.cos())
    assert len(plot.inner_product(encoding, 40, pairs=False).axes) == 1


def test_inner_products_that_depend_on_more_than_distance_say_so() -> None:
    assert any("varies" in text for text in texts(plot.inner_product(FIRST["learned"], 40)))
    assert not any("varies" in text for text in texts(plot.inner_product(pe.Sinusoidal(16), 40)))


def test_scores_and_one_row_of_them() -> None:
    encoding = FIRST["t5"]
    matrix, row = plot.scores(encoding, 12, head=2, query=5).axes
    expected = measure.token_scores(encoding, 12)[2]
    exact(image_of(matrix), expected)
    exact(line_of(row), expected[5])


def test_hidden_scores_are_blank() -> None:
    matrix, _ = plot.scores(FIRST["rerope"], 6).axes
    assert torch.equal(image_of(matrix).isnan(), torch.ones(6, 6).triu(1).bool())


def test_biases_and_their_buckets() -> None:
    encoding = FIRST["t5"]
    curve, buckets = plot.bias(encoding, 12, heads=[1]).axes
    distance = torch.arange(-11, 12)
    expected = encoding.weight.detach()[encoding.bucket(distance), 1]
    torch.testing.assert_close(line_of(curve), expected.double())
    found = line_of(buckets)
    same = encoding.bucket(distance)[:, None] == encoding.bucket(distance)
    assert torch.equal(found[:, None] == found, same)
    assert len(plot.bias(pe.ALiBi(4), 12).axes) == 1


def test_angles_and_turns() -> None:
    encoding = pe.Rotary(16)
    matrix, turns = plot.angles(encoding, 40).axes
    exact(image_of(matrix).T, measure.relative_angles(encoding, 40, wrapped=True)[0])
    shown = torch.from_numpy(np.asarray(turns.lines[1].get_xdata()))
    exact(shown, measure.turns(measure.frequencies(encoding)[0], 40))


def test_wavelengths_of_several() -> None:
    encodings = {"one": pe.Rotary(16), "$two$": pe.Rotary(16, base=500.0)}
    (axes,) = plot.wavelengths(encodings, trained=100).axes
    lines = {line.get_label(): line for line in axes.lines}
    for name, encoding in encodings.items():
        expected = measure.wavelengths(measure.frequencies(encoding))[0]
        exact(torch.from_numpy(np.asarray(lines[name].get_ydata())), expected)


def test_every_scaling_is_overlaid() -> None:
    (axes,) = plot.wavelengths(plot.scaled(pe.Rotary(64))).axes
    named = [line.get_label() for line in axes.lines]
    assert {"RoPE", "Linear (PI)", "NTK", "DynamicNTK", "YaRN", "Llama 3", "LongRoPE"} < set(named)
    assert any("never turn" in text for text in texts(axes.figure))
    # A single pair is too few for NTK, which is left out.
    assert "NTK" not in plot.scaled(pe.Rotary(2))


def test_a_helix_is_round_between_two_tokens() -> None:
    encoding = pe.Sinusoidal(16)
    (axes,) = plot.helix(encoding, 0, 20).axes
    at, x, y = torch.from_numpy(np.array(axes.lines[0].get_data_3d(), dtype=float))
    assert len(at) > 6 * 20
    torch.testing.assert_close(torch.stack((x, y)), torch.stack((at.cos(), at.sin())))
    # What does not turn steadily is nowhere between two tokens.
    (axes,) = plot.helix(FIRST["axial"], 0, 20).axes
    assert len(axes.lines[0].get_data_3d()[0]) == 20


def test_a_decomposition_shows_its_parts_and_names_what_would_be_blank() -> None:
    found = decomposed(FIRST["shaw"], 6)
    figure = plot.decomposition(found, head=1)
    parts = found.parts()
    shown = [axes for axes in figure.axes if axes.images]
    expected = [found.total(), parts["token_token"], parts["token_position"]]
    for axes, part in zip(shown, expected, strict=True):
        exact(image_of(axes), part[0, 1])
    assert len({axes.images[0].get_clim() for axes in shown}) == 1
    rest = "position - token, position - position, token and position"
    assert f"below 5% of the largest score: {rest}" in texts(figure)


def test_a_decomposition_takes_what_decompose_takes() -> None:
    q = torch.randn(1, 2, 5, 8, dtype=torch.float64)
    encoding = pe.ALiBi(2)
    axes = plot.decomposition(q, q, encoding, causal=True, head=1).axes
    expected = pe.decompose(q, q, encoding, causal=True).total()[0, 1]
    shown = image_of(axes[0])
    exact(shown, expected.where(expected.isfinite(), math.nan))
    assert repr(encoding) in texts(axes[0].figure)


def test_masks_and_their_receptive_field() -> None:
    one, field = plot.mask([pe.SlidingWindow(3), pe.Sinks(1)], 12, layers=2).axes
    i, j = torch.arange(12)[:, None], torch.arange(12)
    seen = (j <= i) & ((i - j < 3) | (j < 1))
    assert torch.equal(~image_of(one).isnan(), seen)
    within_two = (j <= i) & ((i - j < 5) | (j < 1))
    expected = torch.where(seen, 1.0, torch.where(within_two, 2.0, math.nan))
    # A sink is reached by all in one layer.
    exact(image_of(field), expected)


def with_an_outlier() -> Tensor:
    """A table as trained ones are: small numbers, and a column of large ones."""
    rows = torch.randn(512, 384, generator=torch.Generator().manual_seed(0)) * 0.1
    rows[:, 7] = 1.87
    return rows


def test_outliers_do_not_whiten_a_heatmap() -> None:
    figure = plot.heatmap(pe.Learned.from_rows(with_an_outlier()), 512)
    low, high = figure.axes[0].images[0].get_clim()
    assert (low, high) == (-high, high)
    assert 0.2 < high < 0.3
    assert "value (1 % lie beyond the ends)" in texts(figure)


def test_the_limit_of_colours_can_be_chosen() -> None:
    figure = plot.heatmap(with_an_outlier(), vmax=2.0)
    assert figure.axes[0].images[0].get_clim() == (-2.0, 2.0)
    assert "value" in texts(figure)
    figure = plot.heatmap(torch.tensor([[1.0, 2.0], [-4.0, 0.5]]), vmax=2)
    assert "value (25 % lie beyond the ends)" in texts(figure)


def test_inner_products_are_of_all_rows_or_say_so() -> None:
    upper = plot.inner_product(pe.Learned(8, 512)).axes[0]
    assert len(line_of(upper)) == 512
    figure = plot.inner_product(pe.Learned(8, 2048), theme="dark")
    assert len(line_of(figure.axes[0])) == 1024
    assert any(text.startswith("first 1024 of 2048 positions") for text in texts(figure))
    assert len(line_of(plot.inner_product(pe.Sinusoidal(8)).axes[0])) == 128


def test_numbers_without_end_leave_gaps_and_no_limits() -> None:
    table = torch.tensor([[1.0, torch.inf], [-2.0, 3.0], [0.5, -torch.inf]])
    first, last = plot.curves(table).axes
    assert first.get_ylim() == last.get_ylim() == pytest.approx((-3.45, 3.45))
    exact(line_of(last, 1), torch.tensor([math.nan, 3.0, math.nan]))
    (drawn, *_) = plot.heatmap(table).axes[0].images
    assert drawn.get_clim() == (-3.0, 3.0)


def test_a_circle_and_a_helix_are_of_the_head_that_is_asked_for() -> None:
    mixed = pe.MixedRotary(16, heads=4, axes=2, grid=(3, 4))
    points = measure.pair_points(mixed, 9)[2, :, 1]
    drawn = plot.figures(mixed, length=9, pair=1, head=2)
    shown = torch.from_numpy(np.asarray(drawn["circle"]().axes[0].collections[0].get_offsets()))
    exact(shown, points)
    (around,) = drawn["helix"]().axes
    exact(torch.from_numpy(np.stack(around.collections[0]._offsets3d[1:], axis=1)), points)
    with pytest.raises(pe.SettingError, match="head=4: there are 4"):
        plot.circle(mixed, head=4)
