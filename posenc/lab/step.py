"""One step of training: its batch, its gradient in parts that fit, and its loss, read late."""

import hashlib
import math
import time

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posenc.errors import LabError
from posenc.lab.checkpoint import Clock
from posenc.lab.config import RunConfig
from posenc.lab.placing import placed
from posenc.lab.tasks import Batch, Task

UNSCORED = -100
# How long losses may stay unread: whoever reads one waits until a GPU has done all steps before.
LATE_SECONDS = 0.2


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
) -> tuple[Tensor, int]:
    """Make one step; its loss, still on the device, and in how many parts its batch was read.

    Parts are as many as it takes to fit the memory; the gradient is that of the whole batch. Where
    positions are drawn, each part draws its own.
    """
    batch = batch_at(task, config, number)
    while True:
        # Whatever draws random positions draws the same ones after a resume.
        torch.manual_seed(_seed(config.seed, number))
        optimizer.zero_grad()
        try:
            loss = _backward(model, config, task, batch, parts)
            break
        except torch.OutOfMemoryError:
            if parts >= config.batch:
                raise
        # Not in the handler: there the error still holds what has to be freed.
        parts *= 2
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss, parts


def _backward(model: nn.Module, config: RunConfig, task: Task, batch: Batch, parts: int) -> Tensor:
    device = next(model.parameters()).device
    size, scored = -(-config.batch // parts), int(batch.scored.sum())
    losses = []
    for first in range(0, config.batch, size):
        chosen = batch.map(lambda x, first=first: x[first : first + size])
        # The loss of a batch is the mean over all that is scored in it.
        share = int(chosen.scored.sum()) / scored
        part = chosen.map(lambda x: x.to(device))
        with torch.autocast(device.type, torch.bfloat16, enabled=config.precision == "bfloat16"):
            logits = model(part.tokens, placed(config, part, task.causal, training=True)).float()
        # What is not scored is no target.
        targets = part.targets.masked_fill(~part.scored, UNSCORED)
        mean = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=UNSCORED)
        loss = mean * share
        loss.backward()
        losses.append(loss.detach())
    return torch.stack(losses).sum()


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


def _seed(seed: int, step: int) -> int:
    # torch's CPU generator reads 32 bits of its seed, so shifting one of the two would lose it.
    return int.from_bytes(hashlib.sha256(f"{seed}/{step}".encode()).digest()[:4])
