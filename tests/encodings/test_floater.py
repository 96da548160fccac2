"""FLOATER: its solvers, its layers, and its path as a table."""

from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

from posenc import FLOATER, Learned, Positions, PositionsError, SettingError, Transformer
from posenc.encodings import floater as floater_module
from posenc.encodings.floater import rk4
from posenc.testing import run_check
from tests.support.oracles import drawing


def alike(floater: FLOATER, **settings: object) -> FLOATER:
    """The same parameters under other settings."""
    made = FLOATER(**{**floater.settings(), **settings}).to(floater.start.dtype)
    made.load_state_dict(floater.state_dict())
    return made


def gradients(floater: FLOATER, rows: Tensor) -> Tensor:
    found = torch.autograd.grad(rows.sin().sum(), list(floater.parameters()))
    return torch.cat([grad.flatten() for grad in found])


def test_rk4_follows_a_linear_equation_to_the_matrix_exponential() -> None:
    draw = drawing(1)
    matrix, start, delta = draw(5, 5), draw(5), 0.2
    times = delta * torch.arange(7, dtype=torch.float64)
    exact = torch.linalg.matrix_exp(times[:, None, None] * matrix) @ start
    errors = []
    for steps in (4, 8, 16):
        path = rk4(lambda t, p: matrix @ p, start, delta, 7, steps)
        errors.append((path - exact).abs().max().item())
    assert errors[-1] < 1e-5
    # Half the step, a sixteenth of the error.
    for coarse, fine in pairwise(errors):
        assert 14 < coarse / fine < 18


def test_rk4_reads_the_time() -> None:
    zero = torch.zeros(1, dtype=torch.float64)
    path = rk4(lambda t, p: zero + 4 * t**3, zero, 0.5, 4, 1)
    # The rule is exact for polynomials up to this degree.
    torch.testing.assert_close(path[:, 0], torch.tensor([0, 0.5, 1, 1.5]).double() ** 4)


def test_fixed_steps_converge_at_order_4_to_torchdiffeq() -> None:
    pytest.importorskip("torchdiffeq")
    torch.manual_seed(0)
    floater = FLOATER(9, 12, delta=0.5).double()
    exact = alike(floater, solver="dopri5", tolerance=1e-13).rows(12)
    errors = [(alike(floater, steps=n).rows(12) - exact).abs().max().item() for n in (4, 8, 16)]
    assert errors[-1] < 1e-6
    for coarse, fine in pairwise(errors):
        assert 12 < coarse / fine < 20


@pytest.mark.parametrize("solver", ["dopri5", "bosh3", "adaptive_heun", "fehlberg2"])
def test_solvers_of_torchdiffeq_meet_fixed_steps(solver: str) -> None:
    pytest.importorskip("torchdiffeq")
    torch.manual_seed(0)
    fixed = FLOATER(5, 6, layers=2, steps=8)
    chosen = alike(fixed, solver=solver, tolerance=1e-5)
    rows, expected = chosen.rows(6), fixed.rows(6)
    torch.testing.assert_close(rows, expected, rtol=0, atol=1e-3)
    actual = torch.autograd.grad(rows.sin().sum(), chosen.dynamics[0].inner.weight)
    wanted = torch.autograd.grad(expected.sin().sum(), fixed.dynamics[0].inner.weight)
    torch.testing.assert_close(actual, wanted, rtol=0, atol=1e-2)


def test_torchdiffeq_takes_half_precision_and_a_single_token() -> None:
    pytest.importorskip("torchdiffeq")
    floater = FLOATER(5, 6, solver="dopri5").bfloat16()
    for length in (1, 6):
        out = floater.embed(torch.zeros(1, length, 5, dtype=torch.bfloat16), None)
        out.float().sum().backward()
        assert out.dtype == torch.bfloat16
        assert torch.isfinite(floater.start.grad).all()


def test_without_torchdiffeq_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(floater_module, "find_spec", lambda name: None)
    with pytest.raises(SettingError, match=r'dopri5.*pip install -e "\.\[floater\]".*rk4'):
        FLOATER(4, 8, solver="dopri5")
    assert FLOATER(4, 8).rows(8).shape == (8, 4)


def test_every_layer_has_a_path_of_its_own() -> None:
    torch.manual_seed(0)
    apart, shared = FLOATER(4, 8, layers=3), FLOATER(4, 8, layers=3, share=True)
    for floater, nets in ((apart, 3), (shared, 1)):
        assert len(floater.dynamics) == nets
        assert floater.tags.every_layer
        paths = torch.stack([floater.rows(8, layer) for layer in range(3)])
        assert torch.equal(paths[:, 0], floater.start)
        assert nn.functional.pdist(paths.flatten(1)).min() > 1e-2
        with pytest.raises(SettingError, match=r"layers=3\) was asked for layer 3.*layers >= 4"):
            floater.rows(8, layer=3)
    alone = FLOATER(4, 8)
    assert not alone.tags.every_layer
    # Per layer, one object each: each is asked with the number of its layer.
    assert torch.equal(alone.rows(8, layer=5), alone.rows(8))


def test_a_transformer_adds_the_path_of_each_layer_before_it() -> None:
    torch.manual_seed(0)
    floater = FLOATER(16, 9, layers=2)
    model = Transformer(11, 16, 2, 2, floater).eval()
    tables = Transformer(11, 16, 2, 2, floater.tabulated).eval()
    tables.load_state_dict(model.state_dict(), strict=False)
    for layer, table in enumerate((*tables.embedding.encodings, *tables.later_encodings)):
        assert isinstance(table, Learned)
        with torch.no_grad():
            table.weight.copy_(floater.rows(9, layer))
    tokens = torch.arange(9)[None]
    before = model(tokens)
    torch.testing.assert_close(tables(tokens), before, rtol=0, atol=1e-6)
    with torch.no_grad():
        floater.start[1] += 1
    assert (model(tokens) - before).abs().max() > 1e-3


def test_the_table_is_the_path_and_starts_trainable() -> None:
    floater = FLOATER(6, 9, layers=2, merge="multiply", steps=2)
    x, at = torch.randn(2, 4, 6), Positions.build(ids=torch.tensor([8, 0, 3, 3]))
    for layer in range(2):
        table = floater.tabulated(layer)
        assert repr(table) == "Learned(dim=6, max_length=9, merge='multiply', padding_idx=None)"
        assert table.weight.requires_grad
        assert table.weight.is_leaf
        assert torch.equal(table.embed(x, at), floater.embed(x, at, layer=layer))


@pytest.mark.graph
@pytest.mark.parametrize("check", ["check_compiles", "check_exports", "check_decoding"])
def test_the_table_enters_graphs_and_caches(check: str) -> None:
    assert run_check(FLOATER(16, 20).tabulated(), check).status == "passed"


def test_gradients_reach_every_parameter_of_the_layer() -> None:
    floater = FLOATER(5, 12, share=True).double()
    assert (gradients(floater, floater.rows(12)).abs() > 0).double().mean() > 0.9


def test_autocast_does_not_reach_the_solver() -> None:
    floater, x = FLOATER(16, 20), torch.zeros(1, 20, 16)
    plain = floater.embed(x, None)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(floater.embed(x, None), plain)


def test_relu_grows_where_tanh_does_not() -> None:
    torch.manual_seed(0)
    tanh = FLOATER(32, 300)
    with torch.no_grad():
        assert tanh.rows(300)[-1].abs().max() < 1e3
        assert alike(tanh, activation="relu").rows(300)[-1].abs().max() > 1e4
        authors = alike(tanh, activation="relu", delta=0.01, steps=5)
        assert authors.rows(255).abs().max() < 10


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_length": 0}, r"FLOATER\(max_length=0\)"),
        ({"layers": 0}, r"FLOATER\(layers=0\): layers must be a whole number"),
        ({"delta": 0.0}, r"FLOATER\(delta=0\.0\)"),
        ({"steps": 0}, r"FLOATER\(steps=0\)"),
        ({"tolerance": -1.0}, r"FLOATER\(tolerance=-1\.0\)"),
        ({"solver": "dopri8"}, r"FLOATER\(solver='dopri8'\): solver is 'rk4', 'dopri5'"),
        ({"activation": "gelu"}, r"FLOATER\(activation='gelu'\): activation is 'tanh'"),
        ({"merge": "cat"}, r"FLOATER\(merge='cat'\)"),
        ({"merge": "concat", "layers": 2}, r"layers=2, merge='concat'.*takes layers=1"),
    ],
    ids=str,
)
def test_bad_settings(settings: dict[str, object], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        FLOATER(**{"dim": 4, "max_length": 8, **settings})


def test_positions_off_the_table() -> None:
    floater, x = FLOATER(4, 8), torch.zeros(1, 2, 4)
    with pytest.raises(PositionsError, match=r"max_length=8\) got positions up to 8.*>= 9"):
        floater.embed(x, Positions.build(ids=torch.tensor([0, 8])))
    with pytest.raises(PositionsError, match="FLOATER has one row per whole position"):
        floater.embed(x, Positions.build(ids=torch.tensor([0.0, 0.5])))
    with pytest.raises(PositionsError, match="FLOATER needs to know how far"):
        floater.embed(x, torch.tensor([0, 1]))
