"""Checkpoints that any number of processes can go on from, by torch.distributed.checkpoint.

<run>/checkpoint/<step>/    each process writes its share; .metadata, which comes last, tells
                            that all of them have
"""

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_state_dict,
    set_state_dict,
)

from posenc.errors import LabError
from posenc.lab.checkpoint import Clock

FOLDER = "checkpoint"
WHOLE = ".metadata"
# By the names of parameters, so that it fits other groups of them.
OPTIONS = StateDictOptions(flatten_optimizer_state_dict=True)
First = Callable[[Callable[[], Any]], Any]


def save(
    folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, clock: Clock, first: First
) -> None:
    """Write a new one, then remove those before; a kill in between leaves a whole one."""
    into = folder / FOLDER / f"{clock.step:09}"
    if first(lambda: (into / WHOLE).exists()):
        return
    state = _state(model, optimizer) | {"clock": json.dumps(dataclasses.asdict(clock))}
    try:
        dcp.save(state, checkpoint_id=into)
    except CheckpointException as error:
        raise LabError(f"{into} cannot be written ({_cause(error)}): make room there") from None

    def remove_others() -> None:
        for other in into.parent.iterdir():
            if other != into:
                shutil.rmtree(other)

    first(remove_others)


def load(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, first: First) -> Clock:
    """Put the latest whole one into both; a clock at zero where there is none.

    Raises LabError for one that cannot be read, or is of another model.
    """
    found = [path.parent for path in folder.glob(f"{FOLDER}/*/{WHOLE}")]
    latest = first(lambda: max(found, default=None))
    if latest is None:
        return Clock()
    state = _state(model, optimizer) | {"clock": ""}
    try:
        dcp.load(state, checkpoint_id=latest)
        clock = Clock.read(state["clock"])
    except (CheckpointException, ValueError) as error:
        cause = _cause(error) if isinstance(error, CheckpointException) else error
        raise LabError(
            f"{latest} cannot be gone on from ({cause}): remove it, and the run goes on "
            "from the one before, or begins again"
        ) from None
    set_state_dict(
        model,
        optimizer,
        model_state_dict=state["model"],
        optim_state_dict=state["optimizer"],
        options=OPTIONS,
    )
    return clock


def forget(folder: Path) -> None:
    """Remove all of them."""
    shutil.rmtree(folder / FOLDER, ignore_errors=True)


def _state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    weights, moments = get_state_dict(model, optimizer, options=OPTIONS)
    return {"model": weights, "optimizer": moments}


def _cause(error: CheckpointException) -> str:
    """What went wrong in the first of the processes in which something did."""
    cause, _ = next(iter(error.failures.values()))
    return f"{type(cause).__name__}: {cause}"
