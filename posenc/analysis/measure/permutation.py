"""Whether a model reads the order of its input: feed a sentence, and the same words rearranged."""

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from posenc.errors import ShapeError

# Sums in another order differ by rounding; a model's output by some hundred steps of it.
ROUNDING = 1000

Model = Callable[[Tensor], Tensor]
Change = Float64[Tensor, "n"]


def permutations(length: int, count: int = 16, seed: int = 0) -> Int64[Tensor, "n t"]:
    """`count` random orders of `length` tokens, none of them the order as it is.

        permutations(5, count=3)   # (3, 5)

    Raises ShapeError for fewer than two tokens, which have one order alone.
    """
    if length < 2:
        raise ShapeError(f"permutations(length={length}): two tokens at least can change places")
    generator = torch.Generator().manual_seed(seed)
    plain, orders = torch.arange(length), []
    while len(orders) < count:
        order = torch.randperm(length, generator=generator)
        if not torch.equal(order, plain):
            orders.append(order)
    return torch.stack(orders)


@torch.no_grad()
def permutation_sensitivity(model: Model, x: Tensor, orders: Int64[Tensor, "n t"]) -> Change:
    """By how much the output for a sentence changes when its tokens change places.

        |model(x[:, order]) - model(x)| / |model(x)|   for each order

    model maps x (b, t, ...), tokens or vectors, to what it says of the whole sentence: a last
    state, or a mean over tokens. Changes within the rounding of the output's dtype (1000 eps) are
    given as 0: a model without position sums the same numbers in another order. A model is
    position-insensitive where all are 0, as a Transformer encoder without position is; recurrent
    and convolutional ones are sensitive.

        permutation_sensitivity(TextCNN(100, 32), tokens, permutations(tokens.shape[1]))

    Raises ShapeError for orders that do not fit x.
    """
    _check(x, orders)
    plain = model(x)
    return _changes(plain, (model(x[:, order]) for order in orders))


@torch.no_grad()
def equivariance_error(model: Model, x: Tensor, orders: Int64[Tensor, "n t"]) -> Change:
    """The same for a model with an output per token (b, t, ...), after putting these back in place.

        |model(x[:, order])[:, inverse] - model(x)| / |model(x)|   for each order

    0 where what is said of a token does not depend on where it and the others stand. The mean over
    tokens can hide a change that is seen here. Raises ShapeError for orders that do not fit x.

        equivariance_error(pe.Transformer(100, 32, 2, 4), tokens, permutations(tokens.shape[1]))
    """
    _check(x, orders)
    plain = model(x)
    return _changes(plain, (model(x[:, order])[:, order.argsort()] for order in orders))


def _changes(plain: Float[Tensor, "b *shape"], others: Iterator[Tensor]) -> Change:
    apart = torch.stack([(other - plain).double().norm() for other in others])
    # What stays zero, as behind a layer that begins with zeros, has not changed.
    changes = torch.where(apart == 0, apart, apart / plain.double().norm())
    return changes.masked_fill(changes < ROUNDING * torch.finfo(plain.dtype).eps, 0.0)


def _check(x: Tensor, orders: Tensor) -> None:
    if x.ndim < 2 or orders.shape[-1] != x.shape[1]:
        raise ShapeError(
            f"orders of shape {tuple(orders.shape)} for x of shape {tuple(x.shape)}: x is "
            "(b, t, ...), and each order rearranges its t tokens"
        )
