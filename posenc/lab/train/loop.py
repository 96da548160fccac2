"""The loop of training, which one process goes through as several do."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from posenc.lab.checkpoint import load_weights
from posenc.lab.config import RunConfig
from posenc.lab.folder import RESULTS, WEIGHTS, append_row
from posenc.lab.hardware import peak_memory_mb
from posenc.lab.model import build
from posenc.lab.processes import Alone, Processes
from posenc.lab.step import step
from posenc.lab.tasks import Task
from posenc.lab.train.optimizer import learning_rate, make_optimizer
from posenc.lab.train.record import Progress, Record, Stop
from posenc.lab.train.rows import cost_row

# How often in a budget it is asked whether the task is solved.
CHECKS = 20


def train(
    config: RunConfig,
    task: Task,
    folder: Path,
    tell: Callable[[Progress], None] = lambda progress: None,
    device: torch.device | str = "cpu",
    processes: Processes | None = None,
) -> nn.Module:
    """Train in `folder`, from its checkpoint if there is one; weights and rows are left there.

    `tell` hears of each step and may raise `Stop`: a checkpoint is written first. `processes` say
    who carries it out, where this process is not alone; the first of them hears, writes and
    decides. Raises LabError when the loss is no longer a finite number.
    """
    ours = Alone(device) if processes is None else processes
    before = peak_memory_mb()
    model = build(config, task, folder.parents[1])
    if config.base:
        load_weights(folder.parent / config.base / WEIGHTS, model)
    model, run = ours.spread(model.train(), config)
    optimizer = make_optimizer(model, config)
    clock = ours.load(folder, model, optimizer)
    record = Record(config, folder, clock, tell)
    parts = ours.parts

    while clock.used(config) < 1:
        began = time.perf_counter()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(config, clock.used(config))
        made = step(run, optimizer, config, task, clock.step, parts, ours)
        parts = made.parts
        # Clocks of processes differ: what the first one's says holds for all.
        clock, saves, stops = ours.first(lambda made=made, began=began: record.add(made, began))
        asks = config.solved is not None and clock.solved is None
        if asks and clock.step % max(1, (config.steps or 0) // CHECKS) == 0:
            solved = _is_solved(model, config, task)
            clock.solved = clock.step if ours.first(lambda solved=solved: solved) else None
        if saves:
            ours.save(folder, model, optimizer, clock)
        if stops:
            raise Stop

    # What was read and left as it is need not be kept once more.
    if clock.step or not config.model:
        ours.keep(folder, model, {"config": json.dumps(config.to_json())})
    after = peak_memory_mb()
    held = None if before is None or after is None else after - before

    def end() -> None:
        times = record.losses.times
        append_row(folder / RESULTS, cost_row(config, task, model, clock, times, held))

    ours.first(end)
    ours.forget(folder)
    return model


def _is_solved(model: nn.Module, config: RunConfig, task: Task) -> bool:
    model.eval()
    # Shares of a model that are gathered in inference mode cannot be written again.
    with torch.no_grad():
        share = task.solved(model, config)
    model.train()
    return share is not None and config.solved is not None and share >= config.solved
