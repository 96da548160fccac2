"""Tables of trained rows: how they grow, and rows that follow from one another."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from posenc import Learned, Positions, Recurrent, SettingError
from posenc.testing import run_check
from tests.support.oracles import drawing

METHODS = ["random", "interpolate", "hierarchical"]


def table(length: int = 5, dim: int = 3) -> Learned:
    return Learned.from_rows(drawing(1)(length, dim))


@pytest.mark.parametrize("method", METHODS)
def test_an_extended_table_is_new_trainable_and_alike(method: str) -> None:
    before = Learned(3, 5, merge="multiply").bfloat16().requires_grad_(False)
    rows = before.weight.clone()
    after = before.extended(11, method)
    assert repr(after) == "Learned(dim=3, max_length=11, merge='multiply', padding_idx=None)"
    assert after.weight.dtype == torch.bfloat16
    assert after.weight.requires_grad
    with torch.no_grad():
        after.weight.zero_()
    assert torch.equal(before.weight, rows)
    assert before.to("meta").extended(11, method).weight.is_meta


@pytest.mark.parametrize("method", ["random", "hierarchical"])
def test_what_was_trained_stays_exactly(method: str) -> None:
    before = table()
    assert torch.equal(before.extended(23, method).weight[:5], before.weight)
    x = drawing(2)(1, 5, 3)
    assert torch.equal(before.extended(23, method).embed(x, None), before.embed(x, None))


@pytest.mark.parametrize("method", METHODS)
def test_the_same_length_changes_nothing(method: str) -> None:
    before = table()
    assert torch.equal(before.extended(5, method).weight, before.weight)


def test_fresh_rows_are_drawn_as_at_first() -> None:
    fresh = table(5, 40).extended(400).weight[5:]
    assert 0.019 < fresh.std().item() < 0.021
    assert len({tuple(row) for row in fresh.tolist()}) == 395


@pytest.mark.parametrize(("length", "longer"), [(5, 9), (5, 12), (2, 7), (1, 4), (64, 100)])
def test_interpolated_rows_keep_both_ends(length: int, longer: int) -> None:
    before = table(length)
    after = before.extended(longer, "interpolate").weight.detach()
    at = np.arange(longer) * ((length - 1) / (longer - 1))
    columns = before.weight.detach().T.numpy()
    expected = np.stack([np.interp(at, np.arange(length), column) for column in columns], axis=1)
    torch.testing.assert_close(after, torch.from_numpy(expected), rtol=0, atol=1e-12)
    for end in (0, -1):
        torch.testing.assert_close(after[end], before.weight[end].detach(), rtol=0, atol=1e-15)
    # torch's other convention puts the ends half a row further in.
    other = F.interpolate(before.weight.detach().T[None], longer, mode="linear")[0].T
    assert length == 1 or (after - other).abs().max() > 1e-3


@pytest.mark.parametrize("alpha", [0.4, 0.3, 0.8])
def test_hierarchical_rows_are_those_of_su(alpha: float) -> None:
    n = 4
    before = table(n)
    p = before.weight.detach()
    after = before.extended(n**2, "hierarchical", alpha=alpha).weight.detach()
    # As printed, with i and j from 1.
    for i in range(1, n + 1):
        for j in range(1, n + 1):
            u_i, u_j = ((p[at - 1] - alpha * p[0]) / (1 - alpha) for at in (i, j))
            expected = alpha * u_i + (1 - alpha) * u_j
            torch.testing.assert_close(after[(i - 1) * n + j - 1], expected, rtol=0, atol=1e-14)
    assert torch.cdist(after, after).add(torch.eye(n**2) * 9).min() > 1e-3
    assert torch.equal(before.extended(7, "hierarchical", alpha=alpha).weight, after[:7])


@pytest.mark.parametrize(("alpha", "growth"), [(0.4, 1.2), (0.2, 1.03), (0.6, 1.8)])
def test_hierarchical_rows_are_longer_than_trained_ones(alpha: float, growth: float) -> None:
    rows = drawing(3)(64, 128)
    rows[0] *= 0.01
    after = Learned.from_rows(rows).extended(1024, "hierarchical", alpha=alpha).weight.detach()
    assert (1 + (alpha / (1 - alpha)) ** 2) ** 0.5 == pytest.approx(growth, abs=0.01)
    assert (after[128:].norm(dim=1).mean() / rows.norm(dim=1).mean()) == pytest.approx(
        growth, rel=0.03
    )


def test_the_row_of_padding_is_that_of_torch() -> None:
    made, theirs = Learned(3, 6, padding_idx=1), nn.Embedding(6, 3, padding_idx=1)
    assert torch.equal(made.weight == 0, theirs.weight == 0)
    with torch.no_grad():
        # As it is loaded, whatever it holds.
        theirs.weight[1] = 7.0
    made = Learned.from_rows(theirs.weight.detach(), padding_idx=1)
    at, x = torch.tensor([[1, 1, 2, 3], [2, 3, 4, 5]]), drawing(3)(2, 4, 3).float()
    for out in (found := made.embed(x, Positions.build(ids=at)), expected := x + theirs(at)):
        out.square().sum().backward()
    assert torch.equal(found, expected)
    assert torch.equal(made.weight.grad, theirs.weight.grad)
    assert not made.weight.grad[1].any()


def test_a_row_of_padding_is_kept_and_not_mixed() -> None:
    longer = Learned(3, 6, padding_idx=1).extended(9)
    assert longer.padding_idx == 1
    assert not longer.weight[1].any()
    assert longer.weight[2:].all()
    for method in METHODS[1:]:
        with pytest.raises(SettingError, match=r"row padding_idx=1 is no position .* 'random'"):
            Learned(3, 6, padding_idx=1).extended(9, method)


@pytest.mark.usefixtures("unhooked")
def test_lengths_and_factors_that_no_table_reaches() -> None:
    said = r"Learned\(max_length=5\)\.extended\("
    for length, method, alpha, message in [
        (4, "random", 0.4, said + r"4, 'random'\): length must be at least max_length"),
        (26, "hierarchical", 0.4, said + r"26, .*two digits reach 25 = 5 \* 5 positions"),
        (9, "hierarchical", 0.5, said + r"9, .*alpha=0\.5: 0 < alpha < 1, and not 0\.5"),
        (9, "hierarchical", 1.0, said + r"9, .*alpha=1\.0: 0 < alpha < 1"),
        (9, "nearest", 0.4, said + r".*'random', 'interpolate' or 'hierarchical'"),
    ]:
        with pytest.raises(SettingError, match=message):
            table().extended(length, method, alpha)


def test_a_recurrence_costs_no_parameters_per_position() -> None:
    sizes = [[p.shape for p in Recurrent(6, length).parameters()] for length in (4, 4_000)]
    assert sizes[0] == sizes[1]


def test_an_orthogonal_recurrence_keeps_rows_apart_and_gradients_alive() -> None:
    torch.manual_seed(0)
    recurrent = Recurrent(32, 300)
    rows = recurrent.rows(300)
    assert rows.abs().max() < 4
    assert F.pdist(rows.detach()).min() > 0.05
    (grad,) = torch.autograd.grad(rows[-1].square().sum(), recurrent.start)
    assert 1e-6 < grad.abs().max() < 1e3


def test_a_recurrence_as_a_table_gives_the_same_numbers() -> None:
    recurrent = Recurrent(6, 9, merge="concat")
    found = recurrent.tabulated()
    assert repr(found) == "Learned(dim=6, max_length=9, merge='concat', padding_idx=None)"
    x, at = torch.randn(2, 4, 3), Positions.build(ids=torch.tensor([8, 0, 3, 3]))
    assert torch.equal(found.embed(x, at), recurrent.embed(x, at))
    assert found.weight.requires_grad


@pytest.mark.graph
@pytest.mark.parametrize("check", ["check_compiles", "check_exports"])
def test_a_recurrence_as_a_table_enters_graphs(check: str) -> None:
    assert run_check(Recurrent(16, 20).tabulated(), check).status == "passed"


def test_autocast_does_not_reach_the_recurrence() -> None:
    recurrent, x = Recurrent(16, 40), torch.zeros(1, 40, 16)
    plain = recurrent.embed(x, None)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(recurrent.embed(x, None), plain)


def test_rows_of_a_half_precision_recurrence_are_computed_in_float32() -> None:
    recurrent = Recurrent(16, 40).bfloat16()
    exact = Recurrent(16, 40)
    exact.load_state_dict(recurrent.state_dict())
    assert torch.equal(recurrent.rows(40), exact.rows(40))
