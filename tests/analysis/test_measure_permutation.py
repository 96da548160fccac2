"""Which models read the order of their input."""

from collections.abc import Callable

import pytest
import torch

import posenc as pe
from posenc import ShapeError
from posenc.analysis import measure
from posenc.analysis.toy_models import CNNReader, GRUReader, TextCNN, TransformerReader
from tests.support.measured import exact

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
        (lambda: CNNReader(19, 16), True),
        (lambda: CNNReader(19, 16, padding="circular"), True),
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
    measured = measure.permutation_sensitivity(model, WORDS, ORDERS)
    assert measured.shape == (6,)
    assert (measured > 1e-6).all() if sensitive else (measured == 0).all()


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
    measured = measure.equivariance_error(
        lambda x: x + positions, WORDS[..., None].double(), ORDERS
    )
    assert (measured > 0.01).all()


def test_zeros_beyond_the_border_tell_how_near_it_is() -> None:
    moved = torch.stack([torch.arange(10).roll(step) for step in (1, 2, 3)])
    zeros, circular = (
        reader(lambda padding=padding: CNNReader(19, 16, padding=padding))
        for padding in ("zeros", "circular")
    )
    assert (measure.permutation_sensitivity(zeros, WORDS, moved) > 1e-6).all()
    assert (measure.permutation_sensitivity(circular, WORDS, moved) == 0).all()
    assert isinstance(zeros, CNNReader)
    # Of equal tokens, two layers of width 3 know the two at either end.
    alike = (zeros.states(torch.zeros(1, 10, dtype=torch.long))[0]).detach()
    differ = (alike - alike[5]).norm(dim=1) > 1e-9
    assert differ.nonzero().flatten().tolist() == [0, 1, 8, 9]


def test_the_size_of_a_change() -> None:
    x = torch.tensor([[3.0, 4.0, 5.0]])
    orders = torch.tensor([[1, 0, 2], [0, 2, 1]])
    measured = measure.permutation_sensitivity(lambda x: x[:, 0], x, orders)
    exact(measured, torch.tensor([1 / 3, 0.0]).double(), 1e-7)


def test_what_stays_zero_has_not_changed() -> None:
    def zero(x: torch.Tensor) -> torch.Tensor:
        return torch.zeros(*x.shape, 3)

    exact(measure.permutation_sensitivity(zero, WORDS, ORDERS), torch.zeros(6))
    exact(measure.equivariance_error(zero, WORDS, ORDERS), torch.zeros(6))
    broken = measure.permutation_sensitivity(lambda x: zero(x) * torch.nan, WORDS, ORDERS)
    assert broken.isnan().all()


def test_orders_must_fit() -> None:
    assert all(sorted(order.tolist()) == list(range(10)) for order in ORDERS)
    assert not (torch.arange(10) == ORDERS).all(dim=-1).any()
    assert measure.permutations(2, 3).tolist() == [[1, 0]] * 3
    with pytest.raises(ShapeError, match="two tokens at least"):
        measure.permutations(1)
    for of in (measure.permutation_sensitivity, measure.equivariance_error):
        with pytest.raises(ShapeError, match="rearranges its t tokens"):
            of(lambda x: x, WORDS[:, :9], ORDERS)
