"""What the first process does after each step: read losses, write rows, tell of it, decide."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from posenc.lab.checkpoint import Clock
from posenc.lab.config import RunConfig
from posenc.lab.folder import RESULTS, append_row, read_rows
from posenc.lab.step import Losses, Step
from posenc.lab.train.rows import train_row

CHECKPOINT_SECONDS = 20.0


@dataclass(frozen=True)
class Progress:
    """What a running training tells the outside after each step; the loss is the last one read."""

    fraction: float
    step: int
    loss: float
    tokens_per_second: float


class Stop(BaseException):
    """Raised by whoever listens to `Progress`, to end the training with a checkpoint."""


class Decided(NamedTuple):
    """Where the run stands after a step, whether to save now, and whether to stop."""

    clock: Clock
    saves: bool
    stops: bool


class Record:
    """The rows of a training, from its clock on."""

    def __init__(
        self,
        config: RunConfig,
        folder: Path,
        clock: Clock,
        tell: Callable[[Progress], None],
    ) -> None:
        self.config, self.clock, self.tell = config, clock, tell
        self.losses = Losses(clock, config)
        self._results = folder / RESULTS
        self._every = max(1, (config.steps or 0) // 40)
        self._logged: int | None = None
        self._saved = self._last_row = time.monotonic()

    def add(self, made: Step, began: float) -> Decided:
        """Take in the step that `began` then, of time.perf_counter."""
        config, clock, losses = self.config, self.clock, self.losses
        clock.step += 1
        clock.tokens += made.tokens
        now = time.monotonic()
        # A budget in steps gives the same rows on every machine; one in minutes cannot.
        due = clock.step % self._every == 0 if config.steps else now - self._last_row > 2
        losses.add(made.loss)
        if due or losses.late:
            losses.read()
        elapsed = time.perf_counter() - began
        losses.took(elapsed)
        clock.seconds += elapsed
        if due or clock.used(config) >= 1:
            self._write()
            self._last_row = now
        stops = self._tells_to_stop(made.tokens)
        saves = stops or now - self._saved > CHECKPOINT_SECONDS
        if saves:
            losses.read()
            self._saved = now
        return Decided(clock, saves, stops)

    def _write(self) -> None:
        clock = self.clock
        self.losses.read()
        if self._logged is None:
            rows, _ = read_rows(self._results)
            self._logged = max((row["step"] for row in rows if row["kind"] == "train"), default=0)
        if clock.step > self._logged:
            append_row(self._results, train_row(clock))
        clock.loss_sum, clock.loss_count = 0.0, 0

    def _tells_to_stop(self, tokens: int) -> bool:
        clock, config = self.clock, self.config
        rate = tokens / self.losses.times[-1]
        try:
            self.tell(Progress(min(clock.used(config), 1.0), clock.step, self.losses.last, rate))
        except Stop:
            return True
        return False
