"""Who carries a run out: one process, or several that share every batch."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Protocol, TypeVar, cast, runtime_checkable

import torch
from torch import Tensor, nn

from posenc.lab.checkpoint import Clock, load_checkpoint, save_checkpoint, save_tensors
from posenc.lab.config import RunConfig
from posenc.lab.folder import CHECKPOINT, WEIGHTS

T = TypeVar("T")
# The norm to which gradients are clipped.
LARGEST_NORM = 1.0


@runtime_checkable
class Processes(Protocol):
    """What training asks of them. All processes make the same calls in the same order.

    rank    which of them this one is; the first, 0, alone writes and tells
    count   how many there are
    parts   in how many parts each reads its share of a batch, where that fits the memory
    """

    rank: int
    count: int
    parts: int

    def first(self, find: Callable[[], T]) -> T:
        """What the first process finds, for all of them; what it raises, all raise."""
        ...

    def spread(self, model: nn.Module, config: RunConfig) -> tuple[nn.Module, nn.Module]:
        """The model on its devices, and what a step of training calls in its place."""
        ...

    def part(self, run: nn.Module, last: bool) -> AbstractContextManager[object]:
        """What a part of a batch is read in; gradients may be joined at the last."""
        ...

    def clip(self, model: nn.Module) -> None:
        """Give all processes the gradient of the whole batch, clipped."""
        ...

    def summed(self, loss: Tensor) -> Tensor:
        """The sum over processes."""
        ...

    def save(
        self, folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, clock: Clock
    ) -> None:
        """Write what `load` needs to go on as if nothing had happened."""
        ...

    def load(self, folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> Clock:
        """Put the state into both; a clock at zero where there is none."""
        ...

    def forget(self, folder: Path) -> None:
        """Remove what was saved."""
        ...

    def keep(self, folder: Path, model: nn.Module, told: dict[str, str]) -> None:
        """Write the trained weights."""
        ...

    def to_test(self, trained: nn.Module | None, load: Callable[[], nn.Module]) -> nn.Module:
        """The model that tests read, of one just trained or else of its file of weights."""
        ...


class Alone:
    """One process."""

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self.rank, self.count, self.parts, self.device = 0, 1, 1, torch.device(device)

    def first(self, find: Callable[[], T]) -> T:
        return find()

    def spread(self, model: nn.Module, config: RunConfig) -> tuple[nn.Module, nn.Module]:
        model = model.to(self.device)
        return model, cast(nn.Module, torch.compile(model)) if config.compile else model

    def part(self, run: nn.Module, last: bool) -> AbstractContextManager[object]:
        return nullcontext()

    def clip(self, model: nn.Module) -> None:
        nn.utils.clip_grad_norm_(model.parameters(), LARGEST_NORM)

    def summed(self, loss: Tensor) -> Tensor:
        return loss

    def save(
        self, folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, clock: Clock
    ) -> None:
        save_checkpoint(folder / CHECKPOINT, model, optimizer, clock)

    def load(self, folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> Clock:
        return load_checkpoint(folder / CHECKPOINT, model, optimizer)

    def forget(self, folder: Path) -> None:
        (folder / CHECKPOINT).unlink(missing_ok=True)

    def keep(self, folder: Path, model: nn.Module, told: dict[str, str]) -> None:
        save_tensors(folder / WEIGHTS, model.state_dict(), told)

    def to_test(self, trained: nn.Module | None, load: Callable[[], nn.Module]) -> nn.Module:
        return (load() if trained is None else trained).to(self.device)
