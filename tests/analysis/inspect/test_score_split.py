"""Scores split into content, distance and both."""

import pytest
import torch

from posenc import ALiBi, NoPE, Rotary, scores
from posenc.analysis.inspect.score_split import ScoreSplit, score_split
from posenc.positions import Positions, Tokens

T, D = 24, 16
BACK = range(1 - T, 1)


def shares(split: ScoreSplit) -> list[list[float]]:
    return [split.content.tolist(), split.distance.tolist(), split.interaction.tolist()]


class TestScoreSplit:
    def test_positions_alone_explain_all(self) -> None:
        q = torch.zeros(2, T, D)
        content, distance, interaction = shares(score_split(q, q, ALiBi(2), BACK))
        assert distance == pytest.approx([1.0, 1.0])
        assert content == interaction == pytest.approx([0.0, 0.0], abs=1e-9)

    def test_without_position_content_explains_all(self) -> None:
        q, k = torch.randn(2, 2, T, D).unbind()
        content, distance, interaction = shares(score_split(q, k, NoPE(), BACK))
        assert content == pytest.approx([1.0, 1.0])
        assert distance == interaction == pytest.approx([0.0, 0.0], abs=1e-6)

    def test_the_same_q_and_k_everywhere_turned_tell_distance_alone(self) -> None:
        q, k = (torch.randn(1, 1, D).expand(1, T, D) for _ in range(2))
        _, distance, _ = shares(score_split(q, k, Rotary(D), BACK))
        assert distance == pytest.approx([1.0])

    def test_random_content_turned_far_is_known_only_with_the_distance(self) -> None:
        q, k = torch.randn(2, 1, T, 2).unbind()
        # The one pair turns by a radian per token: seven times in 44, so that nothing stays.
        turning = Rotary(2)
        around = range(-43, 1)
        content, distance, interaction = shares(score_split(q, k, turning, around))
        assert content[0] < 0.02
        assert interaction[0] > 0.8
        assert content[0] + distance[0] + interaction[0] == pytest.approx(1.0)

    def test_it_is_an_analysis_of_variance(self) -> None:
        q, k = torch.randn(2, 1, 6, D, dtype=torch.float64).unbind()
        rope = Rotary(D, base=50.0)
        every = []
        for distance in range(-5, 1):
            sides = Tokens(torch.full((6,), 5)), Tokens(torch.full((6,), 5 + distance))
            every.append(scores(q[None], k[None], rope, positions=Positions(*sides))[0, 0])
        x = torch.stack(every)
        x = x - x.mean(dim=(0, 2), keepdim=True)
        content = x.mean(dim=0, keepdim=True)
        distance = x.mean(dim=(1, 2), keepdim=True)
        rest = x - content - distance
        wanted = [part.square().mean() / x.square().mean() for part in (content, distance, rest)]
        found = score_split(q, k, rope, range(-5, 1))
        for (ours,), theirs in zip(shares(found), wanted, strict=True):
            assert ours == pytest.approx(theirs.item())

    def test_a_scale_changes_no_share_and_heads_share_keys(self) -> None:
        q, k = torch.randn(4, T, D), torch.randn(2, T, D)
        once = score_split(q, k, Rotary(D), BACK)
        twice = score_split(q, k, Rotary(D), BACK, scale=2.0)
        for ours, theirs in zip(shares(once), shares(twice), strict=True):
            assert len(ours) == 4
            assert ours == pytest.approx(theirs, rel=1e-4)

    def test_equal_scores_have_no_shares(self) -> None:
        q = torch.zeros(1, T, D)
        assert score_split(q, q, NoPE(), BACK).content.isnan().all()
