"""A network in the C attention kernels: its kinks, units that never change, one bad query."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import attend
from posenc import terms as t
from posenc.native.library import LIBRARY
from tests.support.native_kernels import check, learned, with_gradients
from tests.support.oracles import drawing
from tests.support.term_examples import Sizes, inputs

pytestmark = pytest.mark.skipif(isinstance(LIBRARY, str), reason=str(LIBRARY))

LONG = Sizes(2, 4, 2, 150, 150, 12, 5)


def network(units: int, *, s: Sizes = LONG, hidden: Tensor | None = None) -> t.Network:
    """Of values that rise with the distance, as FIRE's do."""
    draw = drawing(31)
    hidden = draw(2, units) if hidden is None else hidden
    by_distance, by_query = torch.arange(s.k_len).double().log1p(), draw(s.batch, s.q_len).abs()
    return t.Network(by_distance, by_query, *hidden, draw(s.heads, units), draw(s.heads))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("units", [1, 3, 100])
def test_any_number_of_units(units: int, causal: bool) -> None:
    check(LONG, [network(units)], causal=causal)


def test_at_a_kink_a_unit_is_off() -> None:
    """With biases of zero all kinks are at x = 0, where each query meets itself."""
    weights = torch.tensor([1.0, -1.0, 2.0, -0.5]).double()
    for dtype in (torch.float64, torch.float32):
        term = network(4, hidden=torch.stack((weights, torch.zeros(4).double())))
        check(LONG, [term], dtype, causal=True)


def test_units_that_are_always_on_or_off() -> None:
    weights = torch.tensor([0.0, 0.0, 0.0, 1e-320, -1e-320, 1e-200, 1.0]).double()
    biases = torch.tensor([1.0, -1.0, 0.0, 1.0, -1.0, 1.0, -1e300]).double()
    check(LONG, [network(7, hidden=torch.stack((weights, biases)))], causal=True)


def test_several_threads_give_the_same_bits_twice() -> None:
    term, threads = network(16), torch.get_num_threads()
    leaves = [x.requires_grad_() for x in inputs(LONG, drawing(32))] + learned([term])
    torch.set_num_threads(3)
    try:
        once, again = (with_gradients("native", leaves, [term], causal=True) for _ in range(2))
    finally:
        torch.set_num_threads(threads)
    assert all(map(torch.equal, once, again))
    wanted = with_gradients("reference", leaves, [term], causal=True)
    for actual, expected in zip(once, wanted, strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-11)


def test_what_is_no_number_stays_with_its_query() -> None:
    q, k, v = inputs(LONG, drawing(33))
    term = network(16)
    by_query = term.by_query.clone()
    by_query[1, 70] = torch.nan
    bad = replace(term, by_query=by_query)
    got, good = (attend(q, k, v, x, causal=True, backend="native") for x in (bad, term))
    differs = (got != good).all(-1).all(1)
    assert differs.nonzero().tolist() == [[1, 70]]
    assert got[1, :, 70].isnan().all()
    for name in ("hidden_weight", "hidden_bias"):
        units = getattr(term, name).clone()
        units[3] = torch.nan
        assert attend(q, k, v, replace(term, **{name: units}), backend="native").isnan().all()


def test_part_of_a_network_may_learn() -> None:
    term = network(5)
    leaves = [*inputs(LONG, drawing(35)), term.hidden_weight]
    leaves = [x.requires_grad_() for x in leaves]
    got, wanted = (
        with_gradients(backend, leaves, [term], causal=True) for backend in ("native", "reference")
    )
    for actual, expected in zip(got, wanted, strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-11)


def test_fire_learns_what_the_reference_learns() -> None:
    # By chance the gradient of c may come out as next to nothing, of sums that cancel.
    torch.manual_seed(0)
    q, k, v = (x.float() for x in inputs(LONG, drawing(34)))
    made = pe.FIRE(4, initial_threshold=20.0)
    grads = []
    for backend, dtype in (("native", torch.float32), ("reference", torch.float64)):
        made = made.to(dtype)
        out = attend(*(x.to(dtype) for x in (q, k, v)), made, causal=True, backend=backend)
        grads.append(torch.autograd.grad(out.sin().sum(), list(made.parameters())))
    for (name, _), got, wanted in zip(made.named_parameters(), *grads, strict=True):
        # It moves all scores of a row alike, so that its gradient is zero.
        size = 1.0 if name == "output.bias" else wanted.abs().max().item()
        torch.testing.assert_close(got.double(), wanted, rtol=0, atol=3e-5 * size, msg=name)
