"""Train one model: the same batches in the same order for every encoding, exact after a resume."""

import copy
import json
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from posenc.api import Transformer
from posenc.lab.checkpoint import (
    Clock,
    load_checkpoint,
    load_weights,
    save_checkpoint,
    save_tensors,
)
from posenc.lab.config import RunConfig
from posenc.lab.folder import CHECKPOINT, RESULTS, WEIGHTS, append_row, read_rows
from posenc.lab.hardware import peak_memory_mb
from posenc.lab.model import build, encoding_parameters
from posenc.lab.step import Losses, step
from posenc.lab.tasks import Task
from posenc.lab.trained_reach import trained_reach

CHECKPOINT_SECONDS = 20.0
# How often in a budget it is asked whether the task is solved.
CHECKS = 20


@dataclass(frozen=True)
class Progress:
    """What a running training tells the outside after each step; the loss is the last one read."""

    fraction: float
    step: int
    loss: float
    tokens_per_second: float


class Stop(BaseException):
    """Raised by whoever listens to `Progress`, to end the training with a checkpoint."""


def learning_rate(config: RunConfig, used: float) -> float:
    """Linear rise over the first `warmup` of the budget, then half a cosine down to zero."""
    if used < config.warmup:
        # The first step must move, although nothing of the budget is used yet.
        return config.learning_rate * max(used / config.warmup, 0.01)
    done = (used - config.warmup) / (1 - config.warmup)
    return config.learning_rate * (1 + math.cos(math.pi * done)) / 2


def make_optimizer(model: nn.Module, config: RunConfig) -> torch.optim.Optimizer:
    """AdamW; only matrices outside the encoding decay, so an untrained row stays as it began."""
    inside = {id(parameter) for parameter in encoding_parameters(model)}
    groups: dict[bool, list[nn.Parameter]] = {True: [], False: []}
    for parameter in model.parameters():
        groups[parameter.ndim >= 2 and id(parameter) not in inside].append(parameter)
    return torch.optim.AdamW(
        [
            {"params": parameters, "weight_decay": config.weight_decay if decays else 0.0}
            for decays, parameters in groups.items()
        ],
        lr=config.learning_rate,
        betas=(0.9, 0.95),
        fused=True,
    )


def train(
    config: RunConfig,
    task: Task,
    folder: Path,
    tell: Callable[[Progress], None] = lambda progress: None,
    device: torch.device | str = "cpu",
) -> nn.Module:
    """Train in `folder`, from its checkpoint if there is one; weights and rows are left there.

    `tell` hears of each step and may raise `Stop`: a checkpoint is written first. Raises LabError
    when the loss is no longer a finite number.
    """
    before = peak_memory_mb()
    model = build(config, task, folder.parents[1])
    if config.base:
        load_weights(folder.parent / config.base / WEIGHTS, model)
    model = model.to(device).train()
    run = cast(nn.Module, torch.compile(model)) if config.compile else model
    optimizer = make_optimizer(model, config)
    clock = load_checkpoint(folder / CHECKPOINT, model, optimizer)
    rows, _ = read_rows(folder / RESULTS)
    logged = max((row["step"] for row in rows if row["kind"] == "train"), default=0)
    every = max(1, (config.steps or 0) // 40)
    saved = last_row = time.monotonic()
    losses = Losses(clock, config)
    parts = 1

    while clock.used(config) < 1:
        began = time.perf_counter()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(config, clock.used(config))
        loss, parts = step(run, optimizer, config, task, clock.step, parts)
        clock.step += 1
        now = time.monotonic()
        # A budget in steps gives the same rows on every machine; one in minutes cannot.
        due = clock.step % every == 0 if config.steps else now - last_row > 2
        losses.add(loss)
        if due or losses.late:
            losses.read()
        elapsed = time.perf_counter() - began
        losses.took(elapsed)
        clock.seconds += elapsed

        ends = clock.used(config) >= 1
        if due or ends:
            losses.read()
            if clock.step > logged:
                append_row(folder / RESULTS, _train_row(config, task, clock))
            clock.loss_sum, clock.loss_count, last_row = 0.0, 0, now
        asks = config.solved is not None and clock.solved is None
        if asks and clock.step % max(1, (config.steps or 0) // CHECKS) == 0:
            clock.solved = clock.step if _is_solved(model, config, task) else None
        if now - saved > CHECKPOINT_SECONDS:
            losses.read()
            save_checkpoint(folder / CHECKPOINT, model, optimizer, clock)
            saved = now
        try:
            tokens = config.batch * task.tokens(config.train_length)
            rate = tokens / losses.times[-1]
            tell(Progress(min(clock.used(config), 1.0), clock.step, losses.last, rate))
        except Stop:
            losses.read()
            save_checkpoint(folder / CHECKPOINT, model, optimizer, clock)
            raise

    # What was read and left as it is need not be kept once more.
    if clock.step or not config.model:
        told = {"config": json.dumps(config.to_json())}
        save_tensors(folder / WEIGHTS, model.state_dict(), told)
    after = peak_memory_mb()
    held = None if before is None or after is None else after - before
    append_row(folder / RESULTS, _cost_row(config, task, model, clock, losses.times, held))
    (folder / CHECKPOINT).unlink(missing_ok=True)
    return model


def _is_solved(model: nn.Module, config: RunConfig, task: Task) -> bool:
    model.eval()
    with torch.inference_mode():
        share = task.solved(model, config)
    model.train()
    return share is not None and config.solved is not None and share >= config.solved


def _train_row(config: RunConfig, task: Task, clock: Clock) -> dict[str, Any]:
    return {
        "kind": "train",
        "step": clock.step,
        "tokens": clock.step * config.batch * task.tokens(config.train_length),
        "loss": clock.loss_sum / clock.loss_count,
        "seconds": round(clock.seconds, 3),
    }


def _cost_row(
    config: RunConfig,
    task: Task,
    model: nn.Module,
    clock: Clock,
    times: list[float],
    memory: float | None,
) -> dict[str, Any]:
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
