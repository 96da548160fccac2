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
from posenc.errors import LabError, shown
from posenc.lab.config import RunConfig
from posenc.lab.folder import log

# A run whose task is solved goes on with this last share of its budget, where rates are small.
COOLING = 0.1


@dataclass
class Clock:
    """How far a run has come; it travels in the checkpoint."""

    step: int = 0
    tokens: int = 0  # read so far
    seconds: float = 0.0
    loss_sum: float = 0.0  # since the last row
    loss_count: int = 0
    solved: int | None = None  # the step at which the task was found solved

    @classmethod
    def read(cls, text: str) -> "Clock":
        """What was written as JSON.

        Raises ValueError for anything else, as of a version that did not count tokens: rows to come
        would tell too few.
        """
        told = json.loads(text)
        if not isinstance(told, dict) or told.keys() != vars(cls()).keys():
            raise ValueError(f"its clock tells of {shown(told)}, and not as this version writes it")
        return cls(**told)

    def used(self, config: RunConfig) -> float:
        """The fraction of the budget that is used up."""
        if config.steps == 0:
            return 1.0
        if config.steps is not None:
            used = self.step / config.steps
            if self.solved is None:
                return used
            return max(used, 1 - COOLING + (self.step - self.solved) / config.steps)
        assert config.minutes is not None
        return self.seconds / (60 * config.minutes)


def save_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """Write a safetensors file, whole or not at all."""
    whole = {name: tensor.contiguous() for name, tensor in tensors.items()}
    replace_file(path, safetensors.torch.save(whole, metadata))


def load_weights(path: Path, model: nn.Module) -> None:
    """Put what another run has trained into `model`, where names and shapes agree.

    What only `model` has, such as the parameters of another encoding, stays as it was drawn.
    Raises LabError for a run without weights.
    """
    try:
        weights = safetensors.torch.load_file(path)
    except (OSError, safetensors.SafetensorError) as error:
        raise LabError(f"{path} has no weights to begin with ({error}): run it first") from None
    own = model.state_dict()
    same = {n: x for n, x in weights.items() if n in own and own[n].shape == x.shape}
    model.load_state_dict(own | same)


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
            clock = Clock.read(file.metadata()["clock"])
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
