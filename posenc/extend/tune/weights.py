"""Other weights in a model for a while, and its own again, bit by bit."""

import contextlib
from collections.abc import Iterator, Mapping

from torch import Tensor, nn


@contextlib.contextmanager
def replaced(model: nn.Module, weights: Mapping[str, Tensor]) -> Iterator[None]:
    """These tensors in place of the parameters of those names, until the block ends."""
    parameters = dict(model.named_parameters())
    before = {name: parameters[name].data for name in weights}
    try:
        for name, tensor in weights.items():
            parameters[name].data = tensor
        yield
    finally:
        for name, tensor in before.items():
            parameters[name].data = tensor


@contextlib.contextmanager
def trainable(model: nn.Module) -> Iterator[dict[str, nn.Parameter]]:
    """Every parameter by name, to be changed at will: a copy stands in it until the block ends."""
    parameters = dict(model.named_parameters())
    with replaced(model, {name: x.data.clone() for name, x in parameters.items()}):
        try:
            model.requires_grad_(True)
            yield parameters
        finally:
            model.requires_grad_(False)
            model.zero_grad(set_to_none=True)
