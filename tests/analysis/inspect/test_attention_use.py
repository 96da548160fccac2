"""Where heads look, of weights whose answer is known."""

import pytest
import torch

from posenc.analysis.inspect.attention_use import FIRST, AttentionUse
from posenc.errors import ShapeError

T = 12


def looks_back(by: int) -> torch.Tensor:
    """A head whose every query attends to the token `by` before it, or to the first."""
    at = torch.arange(T)
    return torch.nn.functional.one_hot((at - by).clamp(min=0), T).double()


class TestAttentionUse:
    def test_a_head_of_the_previous_token(self) -> None:
        use = AttentionUse.of(looks_back(1)[None])
        assert use.distance.item() == pytest.approx(1.0)
        assert use.previous.item() == 1.0
        assert use.itself.item() == use.next.item() == use.entropy.item() == 0.0
        assert use.reach.item() == 1
        # Of the queries behind the first four only the fifth looks at one of them.
        assert use.first.item() == pytest.approx(1 / (T - FIRST))
        assert use.distance_beyond_first.item() == pytest.approx(1.0)

    def test_a_sink_takes_no_part_in_the_distance_beyond_it(self) -> None:
        sink = torch.zeros(T, T, dtype=torch.float64)
        sink[:, 0] = 0.75
        use = AttentionUse.of((sink + 0.25 * looks_back(0))[None])
        assert use.first.item() == pytest.approx(0.75)
        assert use.distance_beyond_first.item() == 0.0
        assert use.distance.item() == pytest.approx(0.75 * T / 2)
        assert use.itself.item() == pytest.approx(0.25)

    def test_what_a_sink_logit_takes_brings_nothing_nearer(self) -> None:
        heads = torch.stack([looks_back(2), torch.full((T, T), 1 / T, dtype=torch.float64)])
        whole, half = AttentionUse.of(heads), AttentionUse.of(heads / 2)
        assert half.distance.tolist() == pytest.approx(whole.distance.tolist())
        assert half.entropy.tolist() == pytest.approx([0.0, torch.tensor(T).log().item()])
        assert half.reach.tolist() == whole.reach.tolist()
        assert half.itself.tolist() == pytest.approx((whole.itself / 2).tolist())

    def test_a_head_whose_sink_logit_takes_all(self) -> None:
        use = AttentionUse.of(torch.zeros(1, T, T))
        assert use.distance.isnan().all()
        assert use.entropy.item() == 0.0

    def test_even_attention_of_both_sides(self) -> None:
        use = AttentionUse.of(torch.full((1, T, T), 1 / T))
        at = torch.arange(T)
        apart = (at[1:, None] - at).abs().double()
        assert use.distance.item() == pytest.approx(apart.mean().item())
        assert use.entropy.item() == pytest.approx(torch.tensor(T).log().item())
        assert use.previous.item() == pytest.approx(1 / T)
        assert use.next.item() == pytest.approx(1 / T)
        within = [(apart <= reach).double().mean().item() for reach in range(T)]
        assert use.reach.item() == next(n for n, share in enumerate(within) if share >= 0.9)
        assert use.mass.sum().item() == pytest.approx(1.0)

    def test_the_reach_of_all_attention_at_one_distance(self) -> None:
        reaches = [AttentionUse.of(looks_back(by)[None]).reach.item() for by in (0, 1)]
        assert reaches == [0, 1]

    def test_heads_do_not_mix(self) -> None:
        use = AttentionUse.of(torch.stack([looks_back(0), looks_back(1)]))
        assert use.distance.tolist() == pytest.approx([0.0, 1.0])
        assert use.itself.tolist() == [1.0, 0.0]

    def test_the_mean_of_texts(self) -> None:
        mean = AttentionUse.mean([AttentionUse.of(looks_back(by)[None]) for by in (0, 1)])
        assert mean.distance.item() == pytest.approx(0.5)
        assert mean.previous.item() == 0.5

    def test_few_tokens_have_none_behind_the_first(self) -> None:
        use = AttentionUse.of(torch.eye(FIRST)[None])
        assert use.first.isnan().all()
        assert use.itself.item() == 1.0

    @pytest.mark.usefixtures("unhooked")
    def test_one_token_is_too_few(self) -> None:
        with pytest.raises(ShapeError, match="two or more"):
            AttentionUse.of(torch.ones(1, 1, 1))
