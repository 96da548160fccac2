"""What a decomposition says of its parts: shares, means, gradients, hidden pairs."""

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import Positions, scores
from posenc import terms as t
from posenc.analysis.decompose import decompose
from posenc.analysis.decomposition import Decomposition
from tests.support.decomposed import PARTS, adds_up
from tests.support.oracles import drawing
from tests.support.term_examples import (
    Sizes,
    inputs,
)


def parts_of(**named: Tensor) -> Decomposition:
    zeros = torch.zeros_like(next(iter(named.values())))
    visible = torch.ones_like(zeros, dtype=torch.bool).tril()
    return Decomposition(**{name: named.get(name, zeros) for name in PARTS}, visible=visible)


def test_shares_are_variances_along_rows() -> None:
    draw = drawing(6)
    tokens, positions = draw(3, 2, 5, 5).tril(), draw(3, 2, 5, 5).tril()
    # A number per row, as from a bias of the query alone, is nothing to softmax.
    tilted = (positions + draw(3, 2, 5, 1)).tril()
    parts = parts_of(token_token=tokens, position_position=tilted).share()
    for h in range(2):
        spread = [
            sum(part[b, h, i, : i + 1].var(correction=0).item() for b in range(3) for i in range(5))
            for part in (tokens, positions)
        ]
        assert parts["token_token"][h].item() == pytest.approx(spread[0] / sum(spread))
        assert parts["position_position"][h].item() == pytest.approx(spread[1] / sum(spread))
    assert (sum(parts.values()) - 1).abs().max() < 1e-12
    assert list(parts) == PARTS
    alone = parts_of(token_token=torch.ones(1, 2, 4, 4).tril()).share()
    assert all((value == 0).all() for value in alone.values())


def test_means_are_over_the_rows_that_see_the_pair() -> None:
    q, k, _ = inputs(Sizes(q_len=7), drawing(7))
    mask = torch.tensor([[0, 0, 1, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1, 1]])
    positions = Positions.build(attention_mask=mask)
    parts = decompose(q, k, pe.Rotary(10), positions=positions)
    mean = parts.mean()["token_token"]
    assert mean.shape == (6, 7, 7)
    assert mean[..., 0].isnan().all()
    torch.testing.assert_close(mean[..., 1], parts.token_token[1, :, :, 1])
    torch.testing.assert_close(mean[..., 2:], parts.token_token[..., 2:].mean(dim=0))


def test_gradients_flow_through_the_parts() -> None:
    q, k, _ = (x.requires_grad_() for x in inputs(Sizes(q_len=7), drawing(8)))
    encoding = pe.TransformerXL(60, 6).double()
    leaves = [q, k, *encoding.parameters()]
    parts = decompose(q, k, encoding).total().sin().sum()
    expected = scores(q, k, encoding).sin().sum()
    for got, wanted in zip(
        torch.autograd.grad(parts, leaves), torch.autograd.grad(expected, leaves), strict=True
    ):
        torch.testing.assert_close(got, wanted, rtol=1e-11, atol=1e-11)


def test_a_bias_of_minus_infinity_hides_a_pair() -> None:
    q, k, _ = inputs(Sizes(), drawing(9))
    values = torch.zeros(1, 1, 3, 7, dtype=torch.float64)
    values[..., 2:4] = -torch.inf
    parts = decompose(q, k, t.DenseBias(values))
    adds_up(parts, scores(q, k, t.DenseBias(values)))
    assert all(value.isfinite().all() for value in parts.share().values())
