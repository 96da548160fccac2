"""Runs that several processes share: what each of them does of one, as functions by name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from posenc.lab.config import RunConfig
from posenc.lab.folder import RESULTS, WEIGHTS, read_rows
from posenc.lab.model import build
from posenc.lab.processes import Alone, Processes
from posenc.lab.step import step
from posenc.lab.tasks import Task, find
from posenc.lab.tasks.text import Text
from posenc.lab.train import Progress, Stop, train
from posenc.lab.train.given import How
from posenc.lab.train.together import Together

TEXT = torch.randint(
    97, 123, (4000,), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
)
# A batch that no two processes share evenly, of a model whose gradients are clipped.
SMALL = RunConfig(
    "t5",
    train_length=16,
    test_lengths=(16, 32),
    dim=16,
    depth=2,
    heads=2,
    batch=7,
    steps=20,
    spans=8,
)


def task_of(config: RunConfig) -> Task:
    return Text(train=TEXT, test=TEXT) if config.task == "text" else find(config.task)


def together(how: How) -> Together:
    """These processes; one that was started alone has a group of its own."""
    return Together(dist.get_rank(), dist.get_world_size(), torch.device("cpu"), how)


def trained(config: RunConfig, folder: Path, how: How | None = None, until: int = 0) -> None:
    """Train in a folder, up to a step at which it is stopped."""
    folder.mkdir(parents=True, exist_ok=True)

    def tell(progress: Progress) -> None:
        if progress.step == until:
            raise Stop

    processes = None if how is None else together(how)
    try:
        train(config, task_of(config), folder, tell, processes=processes)
    except Stop:
        assert until


def left(folder: Path) -> tuple[Tensor, dict[str, Tensor]]:
    """The losses and the weights of a run."""
    rows, _ = read_rows(folder / RESULTS)
    losses = [row["loss"] for row in rows if row["kind"] == "train"]
    weights = safetensors.torch.load_file(folder / WEIGHTS)
    return torch.tensor(losses, dtype=torch.float64), weights


def first_step(config: RunConfig, how: How | None) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss and the whole gradient, as clipped, of a first step."""
    processes: Processes = Alone() if how is None else together(how)
    model = build(config, task_of(config))
    # Large logits make a gradient that has to be clipped.
    model.embedding.token.weight.data *= 4
    model, run = processes.spread(model, config)
    # A rate of zero: the gradient stays to be looked at.
    optimizer = Still(model.parameters())
    loss, *_ = step(run, optimizer, config, task_of(config), 0, processes.parts, processes)
    gradients = {
        name: gradient.full_tensor() if isinstance(gradient, DTensor) else gradient
        for name, parameter in model.named_parameters()
        if (gradient := parameter.grad) is not None
    }
    return loss, gradients


class Still(torch.optim.Optimizer):
    """Changes nothing."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {})

    def step(self, closure: Callable[[], float] | None = None) -> None:
        pass


def terms_in_training(config: RunConfig, how: How | None) -> list[list[Tensor]]:
    """The tensors of the terms that each layer is given."""
    processes: Processes = Alone() if how is None else together(how)
    model, run = processes.spread(build(config, task_of(config)), config)
    found: list[list[Tensor]] = []

    def look(block: nn.Module, args: tuple[Any, ...]) -> None:
        terms = args[1].terms
        found.append([x.detach() for term in terms for x in vars(term).values() if _is_real(x)])

    for block in model.blocks:
        block.register_forward_pre_hook(look)
    step(run, Still(model.parameters()), config, task_of(config), 0, 1, processes)
    return found


def _is_real(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()
