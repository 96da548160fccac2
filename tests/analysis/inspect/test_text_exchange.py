"""What stays of scores when texts are exchanged."""

import pytest
import torch

from posenc import ALiBi, scores
from posenc.analysis.inspect.distance_fit import distance_fit
from posenc.analysis.inspect.text_exchange import Stays, TextExchange
from posenc.errors import ShapeError

T = 40
VISIBLE = torch.ones(T, T, dtype=torch.bool).tril()
AT = torch.arange(T)


def exchanged(*texts: torch.Tensor) -> Stays:
    exchange = TextExchange()
    for s in texts:
        exchange.add(s)
    return exchange.result()


def hidden(s: torch.Tensor) -> torch.Tensor:
    return s.masked_fill(~VISIBLE, -torch.inf)


def variance(s: torch.Tensor) -> float:
    """Along the rows, over visible pairs."""
    rows = [row[: n + 1] for n, row in enumerate(s)]
    return sum(float((row - row.mean()).square().sum()) for row in rows) / int(VISIBLE.sum())


class TestTextExchange:
    def test_positions_alone_explain_all(self) -> None:
        zero = torch.zeros(1, 2, T, 8)
        bias = scores(zero, zero, ALiBi(2), causal=True)[0]
        stays = exchanged(bias, bias, bias)
        assert stays.distance.tolist() == pytest.approx([1.0, 1.0])
        assert stays.place.tolist() == pytest.approx([0.0, 0.0], abs=1e-6)
        assert stays.content.tolist() == pytest.approx([0.0, 0.0], abs=1e-6)

    def test_content_alone_leaves_nothing(self) -> None:
        texts = [hidden(torch.randn(2, T, T)) for _ in range(4)]
        stays = exchanged(*texts)
        assert (stays.content > 0.95).all()

    def test_a_sink_is_a_place_and_no_distance(self) -> None:
        sink = torch.zeros(1, T, T)
        sink[..., 0] = 5.0
        stays = exchanged(hidden(sink), hidden(sink))
        assert stays.content.item() == pytest.approx(0.0, abs=1e-9)
        assert stays.place.item() > 0.5

    def test_parts_of_known_size(self) -> None:
        of_distance = torch.randn(2 * T)[AT[None, :] - AT[:, None] + T]
        of_text = torch.randn(T, T)
        turns = [of_text.roll((turn, turn), dims=(0, 1)) for turn in range(0, T, T // 4)]
        stays = exchanged(*(hidden(of_distance + x)[None] for x in turns))
        alone = variance(of_distance)
        wanted = alone / (alone + sum(map(variance, turns)) / len(turns))
        assert 0.2 < wanted < 0.8
        assert stays.distance.item() == pytest.approx(wanted, abs=0.03)
        assert stays.content.item() == pytest.approx(1 - wanted, abs=0.03)
        assert stays.place.item() < 0.02

    def test_what_all_keys_of_a_row_share_is_not_seen(self) -> None:
        texts = [hidden(torch.randn(1, T, T)) for _ in range(3)]
        moved = [s + 100 * torch.randn(1, T, 1) for s in texts]
        before, after = exchanged(*texts), exchanged(*moved)
        assert after.content.item() == pytest.approx(before.content.item(), abs=1e-4)

    def test_equal_scores_have_no_shares(self) -> None:
        assert exchanged(*[hidden(torch.zeros(1, T, T))] * 2).distance.isnan().all()

    def test_one_text_cannot_be_exchanged(self) -> None:
        with pytest.raises(ShapeError, match="1 texts"):
            exchanged(hidden(torch.zeros(1, T, T)))


class TestDistanceFit:
    def test_it_is_least_squares(self) -> None:
        x = torch.randn(2, T, T, dtype=torch.float64).masked_fill(~VISIBLE, 0.0)
        count = VISIBLE.sum(-1, keepdim=True)
        x = (x - x.sum(-1, keepdim=True) / count).masked_fill(~VISIBLE, 0.0)
        # One column for each row's constant, and one for each distance.
        q, k = VISIBLE.nonzero(as_tuple=True)
        one_hot = torch.nn.functional.one_hot
        design = torch.cat([one_hot(q, T), one_hot(q - k, T)], dim=1).double()
        explained = distance_fit(x, VISIBLE)
        for head, ours in zip(x, explained, strict=True):
            wanted = head[VISIBLE]
            fit = design @ torch.linalg.lstsq(design, wanted, driver="gelsd").solution
            assert ours.item() == pytest.approx(fit.square().sum().item(), rel=1e-6)

    def test_both_sides_have_distances_of_their_own(self) -> None:
        side = (AT[None, :] > AT[:, None]).double()[None]
        x = side - side.mean(dim=-1, keepdim=True)
        explained = distance_fit(x, torch.ones(T, T, dtype=torch.bool))
        assert explained.item() == pytest.approx(x.square().sum().item(), rel=1e-6)
