"""What a training leaves in the results of its run."""

import copy
import statistics
from typing import Any

from torch import nn

from posenc.api import Transformer
from posenc.lab.checkpoint import Clock
from posenc.lab.config import RunConfig
from posenc.lab.model import encoding_parameters
from posenc.lab.tasks import Task
from posenc.lab.trained_reach import trained_reach


def train_row(clock: Clock) -> dict[str, Any]:
    """How far it is, and the mean loss since the row before."""
    return {
        "kind": "train",
        "step": clock.step,
        "tokens": clock.tokens,
        "loss": clock.loss_sum / clock.loss_count,
        "seconds": round(clock.seconds, 3),
    }


def cost_row(
    config: RunConfig,
    task: Task,
    model: nn.Module,
    clock: Clock,
    times: list[float],
    memory: float | None,
) -> dict[str, Any]:
    """What it took, and how far it took the encoding."""
    # A run that was resumed after its last step has no times of its own.
    # What others have trained was trained on more than the lab knows of.
    parts = model.encodings_of(0) if isinstance(model, Transformer) else ()
    encodings = [copy.deepcopy(encoding).cpu() for encoding in parts]
    reach = trained_reach(encodings, task.tokens(config.train_length))
    step_seconds = statistics.median(times or [clock.seconds / max(clock.step, 1)])
    solved = {} if clock.solved is None else {"solved": clock.solved}
    return solved | {
        "kind": "cost",
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "encoding_parameters": sum(p.numel() for p in encoding_parameters(model)),
        "steps": clock.step,
        "seconds": round(clock.seconds, 3),
        "ms_per_step": 1000 * step_seconds,
        "peak_memory_mb": memory,
        "trained_position": reach.position,
        "trained_distance": reach.distance,
    }
