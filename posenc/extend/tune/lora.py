"""LoRA by peft: a change of low rank beside weights that stay as they are."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from posenc.errors import UnsupportedError, installing
from posenc.models.attach.entry import entry

# Queries and values, and what holds them where a model projects all three at once.
PROJECTIONS = ("q_proj", "v_proj", "query_key_value", "qkv_proj")
# Where peft looks for the tensors in an adapter's folder.
FILE = "adapter_model.safetensors"
_ADAPTER = "default"


def load_peft() -> Any:
    """The library. Raises UnsupportedError where it is missing; the extra "models" brings it."""
    try:
        import peft
    except ImportError as error:
        raise UnsupportedError(
            f"extend --tune trains LoRA by peft, which cannot be imported ({error}): "
            f"{installing('models')}, or give --tune-rank full"
        ) from error
    return peft


def config(names: tuple[str, ...], rank: int) -> Any:
    """peft's LoraConfig for linear layers of these names, with the usual alpha of twice the rank.

    Source: Hu et al. 2021, arXiv:2106.09685, section 4.1.
    """
    return load_peft().LoraConfig(
        r=rank, lora_alpha=2 * rank, target_modules=list(names), task_type="CAUSAL_LM"
    )


@contextlib.contextmanager
def adapters(
    model: nn.Module, names: tuple[str, ...], rank: int, generator: torch.Generator
) -> Iterator[dict[str, nn.Parameter]]:
    """LoRA beside the linear layers of these names, until the block ends.

    Gives its A and B, called as in the files that peft writes. B is zero: at first nothing changes.
    """
    peft, trained = load_peft(), {x: x.requires_grad for x in model.parameters()}
    # peft draws A from the generator that all of torch shares.
    with torch.random.fork_rng(devices=()):
        torch.set_rng_state(generator.get_state())
        tuner = peft.LoraModel(model, config(names, rank), _ADAPTER)
    try:
        yield {
            f"base_model.{name.removesuffix(f'.{_ADAPTER}.weight')}.weight": x
            for name, x in tuner.named_parameters()
            if x.requires_grad
        }
    finally:
        tuner.unload()
        for parameter, required in trained.items():
            parameter.requires_grad_(required)


def merged(
    model: nn.Module, names: tuple[str, ...], rank: int, tensors: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """The layers' weights W + 2 B A by name, of A and B as `adapters` names them."""
    with adapters(model, names, rank, torch.Generator()) as parameters, torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(tensors[name])
        layers: dict[str, Any] = {name: model.get_submodule(name) for name in names}
        return {
            f"{name}.weight": layer.weight + layer.get_delta_weight(_ADAPTER)
            for name, layer in layers.items()
        }


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
