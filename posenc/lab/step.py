"""One step of training: its batch, its gradient in parts that fit, and its loss, read late."""

import hashlib
import math
import time
from dataclasses import replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posenc.errors import LabError
from posenc.lab.checkpoint import Clock
from posenc.lab.config import RunConfig
from posenc.lab.placing import placed
from posenc.lab.processes import Alone, Processes
from posenc.lab.tasks import Batch, Task
from posenc.positions import Positions

UNSCORED = -100
# How long losses may stay unread: whoever reads one waits until a GPU has done all steps before.
LATE_SECONDS = 0.2


class Step(NamedTuple):
    """What a step came to: its loss, still on the device, the tokens that were read, and in how
    many parts its batch was."""

    loss: Tensor
    tokens: int
    parts: int


def batch_at(task: Task, config: RunConfig, step: int) -> Batch:
    """What one step trains on; it depends on the seed of the data and the step alone."""
    seed = config.seed if config.data_seed is None else config.data_seed
    return task.batch(config, torch.Generator().manual_seed(_seed(seed, step)))


def step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    config: RunConfig,
    task: Task,
    number: int,
    parts: int = 1,
    processes: Processes | None = None,
) -> Step:
    """Make one step.

    Of several `processes`, each reads its rows of the batch. One alone reads it in as many parts as
    it takes to fit the memory. The loss and the gradient are those of the whole batch.
    """
    ours = Alone() if processes is None else processes
    batch = batch_at(task, config, number)
    while True:
        # Whatever draws random positions draws the same ones after a resume, and by other bits than
        # the batch, which a model could otherwise read from them.
        torch.manual_seed(_seed(config.seed, number, "drawn"))
        optimizer.zero_grad()
        try:
            loss = _backward(model, config, task, batch, parts, ours)
            break
        except torch.OutOfMemoryError:
            # The others would wait for this one.
            if parts >= config.batch or ours.count > 1:
                raise
        # Not in the handler: there the error still holds what has to be freed.
        parts *= 2
    ours.clip(model)
    optimizer.step()
    return Step(ours.summed(loss), batch.tokens.numel(), parts)


def _backward(
    model: nn.Module,
    config: RunConfig,
    task: Task,
    batch: Batch,
    parts: int,
    processes: Processes,
) -> Tensor:
    device = next(model.parameters()).device
    scored = int(batch.scored.sum())
    cuts = torch.arange(config.batch).tensor_split(processes.count * parts)
    own = [rows for rows in cuts[processes.rank * parts :][:parts] if len(rows)]
    # Drawn for the whole batch at once, so that no cut changes what is drawn.
    at = placed(config, batch.map(lambda x: x.to(device)), task.causal, training=True)
    losses = []
    for number, rows in enumerate(own, start=1):
        part = batch.map(lambda x, rows=rows: x[rows].to(device))
        positions = at if at is None or len(own) == 1 == processes.count else _rows(at, rows)
        with processes.part(model, last=number == len(own)):
            low = config.precision == "bfloat16"
            with torch.autocast(device.type, torch.bfloat16, enabled=low):
                logits = model(part.tokens, positions).float()
            # What is not scored is no target.
            targets = part.targets.masked_fill(~part.scored, UNSCORED).flatten()
            total = F.cross_entropy(
                logits.flatten(0, 1), targets, ignore_index=UNSCORED, reduction="sum"
            )
            # The loss of a batch is the mean over all that is scored in it. Processes take the
            # mean of their gradients, of which the sum is wanted.
            loss = total / scored
            (loss * processes.count).backward()
        losses.append(loss.detach())
    return torch.stack(losses).sum()


def _rows(at: Positions, rows: Tensor) -> Positions:
    rows = rows.to(at.device)
    return replace(at, queries=at.queries.rows(rows), keys=at.keys.rows(rows))


class Losses:
    """Losses of steps, which stay on the device until they are read into the clock's sum.

    last    the last one that was read
    times   seconds of a step, one number for all steps between two readings
    """

    def __init__(self, clock: Clock, config: RunConfig) -> None:
        self.last = math.nan
        self.times: list[float] = []
        self._clock, self._config = clock, config
        self._unread: list[Tensor] = []
        self._steps, self._seconds, self._since = 0, 0.0, -math.inf

    def add(self, loss: Tensor) -> None:
        self._unread.append(loss)

    @property
    def late(self) -> bool:
        return time.monotonic() - self._since > LATE_SECONDS

    def read(self) -> None:
        """Raises LabError where one is no finite number."""
        values = torch.stack(self._unread).tolist() if self._unread else []
        first = self._clock.step - len(values) + 1
        for number, value in enumerate(values, start=first):
            if not math.isfinite(value):
                raise LabError(
                    f"the loss became {value} at step {number}: try a lower learning rate, or look "
                    f"at the encoding's numbers with `posenc check {self._config.encoding}`"
                )
            self._clock.loss_sum += value
            self._clock.loss_count += 1
            self.last = value
        self._unread.clear()
        self._since = time.monotonic()

    def took(self, seconds: float) -> None:
        """Hear how long a step and what was read after it took: a GPU's time shows in readings."""
        self._seconds += seconds
        self._steps += 1
        if not self._unread:
            self.times.append(self._seconds / self._steps)
            self._steps, self._seconds = 0, 0.0


def _seed(*of: int | str) -> int:
    # torch's CPU generator reads 32 bits of its seed, so shifting a number into it would lose some.
    return int.from_bytes(hashlib.sha256("/".join(map(str, of)).encode()).digest()[:4])
