"""Carry one run out in its folder, from wherever it stands there, in a process of its own."""

import multiprocessing
import platform
import signal
import time
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

import posenc
from posenc.atomic_files import DISK_FULL, write_json
from posenc.lab import pretrained
from posenc.lab.config import RunConfig
from posenc.lab.folder import (
    MANIFEST,
    RESULTS,
    WEIGHTS,
    append_row,
    is_complete,
    locked,
    read_rows,
    read_run,
)
from posenc.lab.hardware import hardware
from posenc.lab.model import build
from posenc.lab.processes import Alone, Processes
from posenc.lab.tasks import Task, find
from posenc.lab.train import Progress, Stop, train

TRAINING_SHARE = 0.9
# How a run can end; `full` is a disk that was, and leaves it to be gone on with as `stopped` does.
Ending = Literal["done", "failed", "stopped", "full"]


@dataclass(frozen=True)
class Assignment:
    """A run to carry out, and where its process finds the text."""

    config: RunConfig
    folder: Path
    text: Path  # the bytes to train on, then the bytes to test on
    summary: dict[str, Any]
    threads: int
    device: str = "cpu"
    together: dict[str, Any] = field(default_factory=dict)  # how several processes share it

    def task(self) -> Task:
        """What is learned; a text is mapped from its file rather than read into memory."""
        if not self.config.of_text:
            return find(self.config.task)
        cut = self.summary["train_bytes"]
        size = cut + self.summary["test_bytes"]
        text = torch.from_file(str(self.text), shared=False, size=size, dtype=torch.uint8)
        data: dict[str, Any] = {"train": text[:cut], "test": text[cut:]}
        if self.config.model:
            data["source"] = pretrained.loadable(self.config, self.folder.parents[1])
        return find(self.config.task, **data)


def prepare(given: Assignment) -> None:
    """Make the run's folder and write its manifest, so that even a run that dies at once shows."""
    given.folder.mkdir(parents=True, exist_ok=True)
    run = read_run(given.folder)
    now = datetime.now(UTC).isoformat("T", "seconds")
    manifest = {
        "config": given.config.to_json(),
        "encoding": given.config.settings,
        "versions": {
            "python": platform.python_version(),
            "posenc": posenc.__version__,
            "torch": torch.__version__,
        },
        "hardware": hardware(given.threads, given.device) | given.together,
        "corpus": given.summary,
        "started": run.manifest.get("started", now) if run else now,
    }
    write_json(given.folder / MANIFEST, manifest)


def carry_out(
    given: Assignment,
    tell: Callable[[Progress], None] = lambda progress: None,
    processes: Processes | None = None,
) -> None:
    """Train and test a prepared run, or what is still missing of it; then add the `done` row.

    `tell` hears of the progress and may raise `Stop`. Any error leaves the folder resumable. Where
    several `processes` carry it out, all call this, and the first alone writes.
    """
    config, folder = given.config, given.folder
    ours = Alone(given.device) if processes is None else processes
    last = Progress(0.0, 0, 0.0, 0.0)

    def trained(progress: Progress) -> None:
        nonlocal last
        last = replace(progress, fraction=progress.fraction * TRAINING_SHARE)
        tell(last)

    def tested(fraction: float) -> None:
        tell(replace(last, fraction=TRAINING_SHARE + (1 - TRAINING_SHARE) * fraction))

    # A worker whose parent was killed may still be writing its last checkpoint.
    with locked(folder, wait=True) if ours.rank == 0 else nullcontext():
        rows, _ = ours.first(lambda: read_rows(folder / RESULTS))
        if is_complete(rows):
            return
        task = given.task()
        model = None
        if not any(row["kind"] == "cost" for row in rows) or not _weights(folder):
            model = train(config, task, folder, trained, processes=ours)
        model = ours.to_test(model, lambda: _finished_model(config, task, folder))
        began = time.perf_counter()
        known = {_key(row) for row in rows}
        # Shares of a model that are gathered in inference mode cannot be written again.
        with torch.no_grad():
            for row in task.evaluate(model.eval(), config, tested):
                if ours.rank == 0 and _key(row) not in known:
                    append_row(folder / RESULTS, row)
        if ours.rank == 0:
            rows, _ = read_rows(folder / RESULTS)
            training = next(row["seconds"] for row in reversed(rows) if row["kind"] == "cost")
            seconds = round(training + time.perf_counter() - began, 3)
            done = {"kind": "done", "seconds": seconds, "rows": len(rows)}
            append_row(folder / RESULTS, done)


def work(given: Assignment, connection: Connection) -> None:
    """The life of a worker process: carry `given` out and say through `connection` how it ended.

    It sends `Progress` now and then, and at the end (Ending, message). The terminal's Ctrl-C is for
    the parent, which sends SIGTERM.
    """
    stopping = False

    def on_terminate(number: int, frame: object) -> None:
        nonlocal stopping
        stopping = True

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, on_terminate)
    torch.set_num_threads(given.threads)
    sent = 0.0

    def tell(progress: Progress) -> None:
        nonlocal sent
        if stopping:
            raise Stop
        now = time.monotonic()
        if now - sent < 0.2:
            return
        sent = now
        try:
            connection.send(progress)
        except OSError:
            # The parent is gone, and nobody else would end this process.
            raise Stop from None

    try:
        ending: tuple[Ending, str] = attempt(given, tell)
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise
        ending = ("full", f"the disk is full ({given.folder})")
    try:
        connection.send(ending)
    except OSError:
        return


def fail(folder: Path, message: str, trace: str = "") -> None:
    """Record that the run in `folder` failed; a torn row before it is kept aside."""
    read_rows(folder / RESULTS)
    row = {"kind": "failed", "error": message}
    append_row(folder / RESULTS, row | ({"traceback": trace} if trace else {}))


def attempt(
    given: Assignment, tell: Callable[[Progress], None], processes: Processes | None = None
) -> tuple[Ending, str]:
    """Carry `given` out: done, failed or stopped, and why it failed, which its rows tell, too.

    A process whose parent was killed stops and tells of no failure: the same command goes on.
    """
    try:
        carry_out(given, tell, processes)
    except Stop:
        return "stopped", ""
    except Exception as error:
        if isinstance(error, OSError) and error.errno in DISK_FULL:
            raise
        if _orphaned():
            # It may have failed for what went with its parent, as the text.
            return "stopped", ""
        message = f"{type(error).__name__}: {error}"
        if processes is None or processes.rank == 0:
            fail(given.folder, message, traceback.format_exc())
        return "failed", message
    return "done", ""


def _orphaned() -> bool:
    parent = multiprocessing.parent_process()
    return parent is not None and not parent.is_alive()


def _weights(folder: Path) -> dict[str, Tensor] | None:
    """What was trained here; None where it cannot be read."""
    try:
        return safetensors.torch.load_file(folder / WEIGHTS)
    except (OSError, safetensors.SafetensorError):
        return None


def _finished_model(config: RunConfig, task: Task, folder: Path) -> nn.Module:
    """The model whose training is over."""
    model = build(config, task, folder.parents[1])
    weights = _weights(folder)
    assert weights is not None
    model.load_state_dict(weights)
    return model


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["kind"], row.get("protocol"), row.get("length")
