"""Carry runs out in processes of this machine, a few at a time."""

import contextlib
import time
from collections import deque
from contextlib import AbstractContextManager
from dataclasses import dataclass

from posenc.errors import LabError
from posenc.lab.engine.engine import Batch, Carrier, Listener, next_ready, too_late
from posenc.lab.engine.worker import PATIENCE_SECONDS, Worker, server, start, wait
from posenc.lab.hardware import chosen_device, cores
from posenc.lab.leftovers import text_file
from posenc.lab.run import Assignment, fail, prepare


@dataclass(frozen=True)
class Local:
    """This machine; runs share its cores evenly."""

    def at_once(self) -> int:
        return cores()

    def usual_device(self) -> str:
        return "cpu"

    def opened(self) -> AbstractContextManager[Carrier]:
        return contextlib.nullcontext(self)

    def check(self, device: str) -> None:
        chosen_device(device)

    def run_all(self, batch: Batch, listener: Listener, until: float | None = None) -> None:
        """As `Carrier` has it; a second Ctrl-C kills the runs."""
        device = chosen_device(batch.device)
        context = server(transformers=any(config.model for config in batch.configs))
        threads = max(1, cores() // batch.jobs)
        waiting, active = deque(batch.configs), list[Worker]()
        with text_file(batch.corpus) as text:
            try:
                while waiting or active:
                    late = until is not None and time.monotonic() > until
                    if late and waiting and not active:
                        raise too_late(len(waiting))
                    while not late and len(active) < batch.jobs:
                        config = next_ready(waiting, [worker.name for worker in active])
                        if config is None:
                            break
                        folder, summary = batch.folder(config.name), batch.summary(config)
                        given = Assignment(config, folder, text, summary, threads, device)
                        prepare(given)
                        active.append(start(context, given))
                        listener.begin(config.name)
                    wait(active, 0.5)
                    for worker in list(active):
                        ended = not worker.process.is_alive()
                        worker.listen(lambda now, name=worker.name: listener.update(name, now))
                        if ended:
                            active.remove(worker)
                            _finish(worker, listener)
            finally:
                _end(active, listener)


LOCAL = Local()


def _finish(worker: Worker, listener: Listener) -> None:
    """Settle a worker whose process has ended; raises LabError when the disk is full."""
    worker.process.join()
    worker.connection.close()
    state, message = worker.ending or ("failed", worker.cause_of_death())
    if worker.ending is None:
        fail(worker.given.folder, message)
    listener.end(worker.name, state, message)
    if state == "full":
        raise LabError(f"{message}: make room and repeat the command; nothing written is lost")


def _end(active: list[Worker], listener: Listener) -> None:
    """Ask the workers for a checkpoint and wait for them; a second Ctrl-C kills them."""
    try:
        for worker in active:
            worker.process.terminate()
        for worker in active:
            worker.process.join(PATIENCE_SECONDS)
    finally:
        for worker in active:
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            # Only how it ended matters now; a listener that raises would leave the others running.
            worker.listen(lambda progress: None)
            worker.connection.close()
            listener.end(worker.name, *(worker.ending or ("stopped", "")))
