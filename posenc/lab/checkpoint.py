"""The state of an unfinished training on the disk: weights, Adam's moments, and the clock."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from posenc.atomic_files import replace_file
from posenc.lab.config import RunConfig
from posenc.lab.folder import log


@dataclass
class Clock:
    """How far a run has come; it travels in the checkpoint."""

    step: int = 0
    seconds: float = 0.0
    loss_sum: float = 0.0  # since the last row
    loss_count: int = 0

    def used(self, config: RunConfig) -> float:
        """The fraction of the budget that is used up."""
        if config.steps is not None:
            return self.step / config.steps
        assert config.minutes is not None
        return self.seconds / (60 * config.minutes)


def save_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """Write a safetensors file, whole or not at all."""
    whole = {name: tensor.contiguous() for name, tensor in tensors.items()}
    replace_file(path, safetensors.torch.save(whole, metadata))


def save_checkpoint(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, clock: Clock
) -> None:
    """Write everything that `load_checkpoint` needs to go on as if nothing had happened."""
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for index, state in optimizer.state_dict()["state"].items():
        tensors |= {f"adam.{index}.{name}": tensor for name, tensor in state.items()}
    save_tensors(path, tensors, {"clock": json.dumps(dataclasses.asdict(clock))})


def load_checkpoint(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> Clock:
    """Put the state into `model` and `optimizer`; a clock at zero when there is none to use."""
    if not path.exists():
        return Clock()
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            clock = Clock(**json.loads(file.metadata()["clock"]))
            # The open file is no dict: it cannot be iterated, only asked for its keys.
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (safetensors.SafetensorError, KeyError, TypeError, ValueError, OSError) as error:
        log.warning("%s cannot be used, so its run starts again (%s)", path, error)
        return Clock()
    weights: dict[str, Tensor] = {}
    moments: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        kind, rest = name.split(".", 1)
        if kind == "model":
            weights[rest] = tensor
        else:
            index, moment = rest.split(".", 1)
            moments.setdefault(int(index), {})[moment] = tensor
    model.load_state_dict(weights)
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": moments, "param_groups": groups})
    return clock
