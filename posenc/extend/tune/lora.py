"""LoRA: a change of low rank beside weights that stay as they are.

Letters: i inputs, o outputs, r rank.
"""

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posenc.errors import UnsupportedError
from posenc.models.attach.entry import entry

# The paper's alpha / r, at the usual alpha of twice the rank.
SCALE = 2.0
# Queries and values, and what holds them where a model projects all three at once.
PROJECTIONS = ("q_proj", "v_proj", "query_key_value", "qkv_proj")


class LoRA(nn.Module):
    """A linear layer with a change of rank r beside it.

        y = base(x) + 2 (x A^T) B^T

    A (r, i) is drawn uniformly within +-1/sqrt(i), B (o, r) is zero: at first nothing changes.

    Source: Hu et al. 2021, arXiv:2106.09685, section 4.1.
    """

    def __init__(self, base: nn.Linear, rank: int, generator: torch.Generator) -> None:
        super().__init__()
        self.base = base
        bound = 1 / math.sqrt(base.in_features)
        drawn = torch.empty(rank, base.in_features).uniform_(-bound, bound, generator=generator)
        self.a = nn.Parameter(drawn.to(base.weight))
        self.b = nn.Parameter(base.weight.new_zeros(base.out_features, rank))

    def forward(self, x: Float[Tensor, "... i"]) -> Float[Tensor, "... o"]:
        return self.base(x) + SCALE * (x @ self.a.mT @ self.b.mT)


@contextlib.contextmanager
def adapters(
    model: nn.Module, names: Iterable[str], rank: int, generator: torch.Generator
) -> Iterator[dict[str, nn.Parameter]]:
    """LoRA beside the linear layers of these names: its A and B by name, until the block ends."""
    wrapped = {name: LoRA(linear(model, name), rank, generator) for name in names}
    parameters: dict[str, nn.Parameter] = {}
    try:
        for name, layer in wrapped.items():
            model.set_submodule(name, layer)
            parameters |= {f"{name}.a": layer.a, f"{name}.b": layer.b}
        yield parameters
    finally:
        for name, layer in wrapped.items():
            model.set_submodule(name, layer.base)


def merged(model: nn.Module, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights W + 2 B A by name, of A and B as `adapters` names them."""
    weights = {}
    for name in (key.removesuffix(".a") for key in tensors if key.endswith(".a")):
        weight = linear(model, name).weight.detach()
        change = tensors[f"{name}.b"] @ tensors[f"{name}.a"]
        weights[f"{name}.weight"] = weight + SCALE * change.to(weight)
    return weights


def linear(model: nn.Module, name: str) -> nn.Linear:
    layer = model.get_submodule(name)
    assert isinstance(layer, nn.Linear)
    return layer


def projections(model: nn.Module) -> tuple[str, ...]:
    """Names of the linear layers that make queries and values, of a model without posenc.

    Raises UnsupportedError where attention has none.
    """
    _, body = entry(model)
    names = {module: name for name, module in model.named_modules()}
    chosen = tuple(
        f"{names[attention]}.{name}"
        for attention in body.attentions
        for name, layer in attention.named_children()
        if name in PROJECTIONS and isinstance(layer, nn.Linear)
    )
    if not chosen:
        raise UnsupportedError(
            f"extend --tune: attention of {body.spec.model_type} has no linear layer called "
            f"{', '.join(PROJECTIONS)}, beside which LoRA could stand: give --tune-rank full"
        )
    return chosen
