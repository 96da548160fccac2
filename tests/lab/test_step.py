"""A step of training: what is read of a device, what fits its memory, and the same on a GPU."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import posenc as pe
from posenc.lab import step as module
from posenc.lab.config import RunConfig
from posenc.lab.folder import RESULTS, read_rows
from posenc.lab.model import build
from posenc.lab.placing import placed
from posenc.lab.processes import Alone
from posenc.lab.step import batch_at, step
from posenc.lab.tasks import Task, find
from posenc.lab.tasks.text import Text
from posenc.lab.train import make_optimizer, train

TEXT = torch.randint(
    97, 123, (4000,), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
)
TASK = Text(train=TEXT, test=TEXT)
SMALL = RunConfig(
    "rotary",
    train_length=8,
    test_lengths=(8, 16),
    dim=8,
    depth=1,
    heads=2,
    batch=6,
    steps=80,
    spans=8,
)


class Reads(TorchDispatchMode):
    """Counts what makes a GPU's host wait: numbers that are read of tensors with a gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.scalars = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict | None = None
    ) -> Any:
        # Of batches, which are on the CPU, whole numbers and truths may be read.
        if func is torch.ops.aten._local_scalar_dense.default and args[0].is_floating_point():
            self.scalars += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.unchecked
def test_a_step_reads_nothing_of_the_device() -> None:
    model = build(SMALL)
    optimizer = make_optimizer(model, SMALL)
    with Reads() as reads:
        for number in range(3):
            loss, *_ = step(model, optimizer, SMALL, TASK, number)
    assert reads.scalars == 0
    assert loss.item() > 0


def test_losses_read_late_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = []
    for name, seconds in (("late", 1e9), ("each", -1.0)):
        monkeypatch.setattr(module, "LATE_SECONDS", seconds)
        (tmp_path / name).mkdir()
        train(SMALL, TASK, tmp_path / name)
        found, _ = read_rows(tmp_path / name / RESULTS)
        rows.append([(row["step"], row["loss"]) for row in found if row["kind"] == "train"])
    assert len(rows[0]) == 40
    assert rows[0] == rows[1]


def narrow(rows: int) -> Callable[..., Tensor]:
    """A model's forward for which more rows are too many."""
    forward = pe.Transformer.forward

    def limited(model: pe.Transformer, tokens: Tensor, *given: Any) -> Tensor:
        if len(tokens) > rows:
            raise torch.OutOfMemoryError(f"{len(tokens)} rows")
        return forward(model, tokens, *given)

    return limited


# Lengths differ from step to step, and what is scored from row to row.
@pytest.mark.parametrize("task", [TASK, find("copy(letters=4)"), find("flip_flop")], ids=str)
def test_a_batch_in_parts_has_the_same_gradient(
    monkeypatch: pytest.MonkeyPatch, task: Task
) -> None:
    config = replace(SMALL, task=task.spec)
    found = []
    for rows in (6, 2):
        model = build(config, task)
        # A rate of zero: the gradient stays to be looked at.
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        with monkeypatch.context() as patched:
            patched.setattr(pe.Transformer, "forward", narrow(rows))
            loss, _, parts = step(model, optimizer, config, task, 0)
        found.append((loss, [p.grad for p in model.parameters()], parts))
    (whole, gradients, one), (summed, others, several) = found
    assert (one, several) == (1, 4)
    torch.testing.assert_close(summed, whole)
    torch.testing.assert_close(others, gradients, rtol=1e-4, atol=1e-6)


class Share(Alone):
    """One of several processes, which the others do not hear of."""

    def __init__(self, rank: int, count: int) -> None:
        super().__init__()
        self.rank, self.count = rank, count

    def clip(self, model: nn.Module) -> None:
        pass


@pytest.mark.parametrize(("count", "parts"), [(1, 1), (2, 1), (3, 1), (3, 2), (4, 1)])
@pytest.mark.parametrize("changed", [{"task": "flip_flop"}, {"positions": "random(longest=64)"}])
def test_shares_of_any_number_of_processes_make_the_whole(
    count: int, parts: int, changed: dict[str, str]
) -> None:
    config = replace(SMALL, encoding="t5", **changed)
    task = TASK if config.of_text else find(config.task)
    losses, gradients = [], []
    for rank in range(count):
        model = build(config, task)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        loss, *_ = step(model, optimizer, config, task, 0, parts, Share(rank, count))
        losses.append(loss)
        gradients.append([p.grad for p in model.parameters()])
    model = build(config, task)
    # One process as it was before there were others.
    batch = batch_at(task, config, 0)
    torch.manual_seed(module._seed(config.seed, 0, "drawn"))
    logits = model(batch.tokens, placed(config, batch, task.causal, training=True))
    whole = F.cross_entropy(logits[batch.scored], batch.targets[batch.scored])
    whole.backward()
    torch.testing.assert_close(torch.stack(losses).sum(), whole.detach(), rtol=1e-6, atol=0)
    means = [torch.stack(own).mean(0) for own in zip(*gradients, strict=True)]
    torch.testing.assert_close(means, [p.grad for p in model.parameters()], rtol=1e-4, atol=1e-6)


def test_positions_are_drawn_by_other_bits_than_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    config = replace(SMALL, task="bucket_sort", positions="random(longest=64)")
    task, seeds = find(config.task), []
    own, place = type(task).batch, module.placed

    def batch(self: Any, config: RunConfig, generator: torch.Generator) -> Any:
        seeds.append(generator.initial_seed())
        return own(self, config, generator)

    def noted(*given: Any, **more: Any) -> Any:
        seeds.append(torch.initial_seed())
        return place(*given, **more)

    monkeypatch.setattr(type(task), "batch", batch)
    monkeypatch.setattr(module, "placed", noted)
    model = build(config, task)
    for number in range(2):
        step(model, make_optimizer(model, config), config, task, number)
    assert len(seeds) == len(set(seeds)) == 4


def test_what_does_not_fit_in_the_smallest_parts_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = build(SMALL)
    monkeypatch.setattr(pe.Transformer, "forward", narrow(0))
    with pytest.raises(torch.OutOfMemoryError, match="1 rows"):
        step(model, make_optimizer(model, SMALL), SMALL, TASK, 0)


@pytest.mark.graph
def test_compiled_steps_learn_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Inductor's own compiler takes a minute, and adds nothing of ours.
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    losses = []
    for config in (SMALL, replace(SMALL, compile=True)):
        folder = tmp_path / config.run_id
        folder.mkdir()
        train(config, TASK, folder)
        rows, _ = read_rows(folder / RESULTS)
        losses.append([row["loss"] for row in rows if row["kind"] == "train"])
    assert losses[0] != []
    torch.testing.assert_close(torch.tensor(losses[1]), torch.tensor(losses[0]), rtol=0, atol=1e-3)
    # Digits differ, so it is another run.
    assert SMALL.run_id != replace(SMALL, compile=True).run_id
