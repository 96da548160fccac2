"""The patches of an image or a video as positions."""

import math

import pytest
import torch

from posenc import Positions, PositionsError


def test_patches_count_row_by_row_behind_tokens_without_a_place() -> None:
    at = Positions.grid(2, 3, leading=1)
    assert at.keys.position.tolist() == [
        [[0, 0], [0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]],
    ]
    assert (at.bound, at.causal, at.q_len) == (3, False, 7)
    video = Positions.grid(1, 2, frames=2, causal=True)
    assert video.keys.position.tolist() == [[[0, 0, 0], [0, 0, 1], [1, 0, 0], [1, 0, 1]]]
    assert video.causal


@pytest.mark.parametrize(
    ("normalise", "rows", "columns"),
    [
        ("separate", (-0.5, 0.5), (-0.75, -0.25, 0.25, 0.75)),
        ("max", (-0.75, -0.25), (-0.75, -0.25, 0.25, 0.75)),
        ("min", (-0.5, 0.5), (-0.5, 0.5, 1.5, 2.5)),
    ],
)
def test_centres_of_patches_by_each_way_of_dinov3(normalise, rows, columns) -> None:
    at = Positions.grid(2, 4, leading=2, normalise=normalise)
    ids = at.keys.position[0]
    assert ids[:2].eq(0).all()
    assert ids[2:].tolist() == [[row, column] for row in rows for column in columns]
    assert at.bound is not None
    assert at.bound >= ids.max() + 1


def test_draws_move_stretch_and_rescale_each_image_by_the_seed() -> None:
    def drawn(seed: int, **settings: float) -> torch.Tensor:
        generator = torch.Generator().manual_seed(seed)
        at = Positions.grid(
            4, 4, leading=1, normalise="separate", batch=200, generator=generator, **settings
        )
        assert at.bound is not None
        assert at.keys.position.max() <= at.bound - 1
        assert at.keys.position[:, 0].eq(0).all()
        return at.keys.position[:, 1:]

    plain = drawn(0)[0]
    moved = drawn(0, shift=0.3) - plain
    # All patches of an image move alike, along each axis by a number of its own.
    assert moved.std(dim=1).max() < 1e-15
    assert 0.25 < moved.abs().max() <= 0.3
    assert (moved[:, 0, 0] - moved[:, 0, 1]).abs().max() > 0.1
    for name in ("jitter", "rescale"):
        grown = (drawn(0, **{name: 2.0}) / plain).log2()
        assert grown.std(dim=1).max() < 1e-14
        assert 0.9 < grown.abs().max() <= 1
        # Uniform in the logarithm: as many shrink as grow.
        assert abs(grown.mean()) < 4 / math.sqrt(3 * 200)
        alike = (grown[:, 0, 0] - grown[:, 0, 1]).abs().max() < 1e-14
        assert alike == (name == "rescale")
    assert torch.equal(drawn(3, jitter=1.5), drawn(3, jitter=1.5))
    assert not torch.equal(drawn(3, jitter=1.5), drawn(4, jitter=1.5))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"height": 0}, "0 x 4 patches behind 0 tokens"),
        ({"leading": -1}, "behind -1 tokens"),
        pytest.param(
            {"normalise": "both"},
            r"normalise='both'.*'separate', 'max', 'min'",
            marks=pytest.mark.unchecked,
        ),
        ({"shift": 0.1}, r"give normalise='separate'"),
        ({"jitter": 0.5, "normalise": "max"}, r"jitter=0.5.*at least 1"),
    ],
)
def test_a_grid_that_is_none_is_refused(settings: dict, said: str) -> None:
    with pytest.raises(PositionsError, match=said):
        Positions.grid(**({"height": 2, "width": 4} | settings))
