"""Carry runs out in worker processes: a few at a time, each fresh, none able to harm another."""

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

from posenc.errors import LabError
from posenc.lab.leftovers import sockets_in_own_folder
from posenc.lab.run import Assignment, fail, prepare, work
from posenc.lab.train import Progress

PATIENCE_SECONDS = 20.0


class Listener(Protocol):
    """Who hears of runs as they go."""

    def begin(self, name: str) -> None: ...
    def update(self, name: str, progress: Progress) -> None: ...
    def end(self, name: str, state: str, message: str) -> None: ...


@dataclass
class _Worker:
    given: Assignment
    process: BaseProcess
    connection: multiprocessing.connection.Connection
    ending: tuple[str, str] | None = None

    @property
    def name(self) -> str:
        return self.given.config.name


def run_all(
    assignments: Sequence[Assignment],
    jobs: int,
    listener: Listener,
    until: float | None = None,
) -> None:
    """Carry all assignments out, `jobs` at a time, in their order.

    A run that fails or whose process is killed is recorded in its folder, and the others go on.
    On KeyboardInterrupt, or when the disk is full (LabError), the workers write their checkpoints
    and end before this raises. After `until`, of time.monotonic, no further run begins: those that
    are at work come to their end, and then TimeoutError is raised.
    """
    context = _context(any(given.config.model for given in assignments))
    waiting = deque(assignments)
    active: list[_Worker] = []
    try:
        while waiting or active:
            late = until is not None and time.monotonic() > until
            if late and waiting and not active:
                raise TimeoutError(f"the time is over, and {len(waiting)} runs have not begun")
            while not late and len(active) < jobs and (given := _next(waiting, active)):
                active.append(_start(context, given))
                listener.begin(active[-1].name)
            handles: list[Any] = [worker.connection for worker in active]
            handles += [worker.process.sentinel for worker in active]
            multiprocessing.connection.wait(handles, timeout=0.5)
            for worker in list(active):
                ended = not worker.process.is_alive()
                _listen(worker, listener.update)
                if ended:
                    active.remove(worker)
                    _finish(worker, listener)
    finally:
        _end(active, listener)


def _context(transformers: bool) -> Any:
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    # The server loads torch once, and each run is a fork of it with memory figures of its own.
    loaded = ["posenc.lab.preload", *(["posenc.lab.preload_models"] if transformers else [])]
    context.set_forkserver_preload(loaded)
    with _interrupts_ignored(), _patient_threads(), sockets_in_own_folder():
        from multiprocessing import forkserver

        forkserver.ensure_running()
    return context


@contextlib.contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Processes started inside ignore Ctrl-C from their first moment."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _patient_threads() -> Iterator[None]:
    """Threads of processes started inside sleep while they wait for each other.

    OpenMP lets them spin, which on a machine with other work to do made a step of two threads 100
    times slower.
    """
    name = "OMP_WAIT_POLICY"
    before = os.environ.get(name)
    os.environ.setdefault(name, "PASSIVE")
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]


def _next(waiting: deque[Assignment], active: Sequence[_Worker]) -> Assignment | None:
    """The first that has not to wait for a run that it begins with."""
    coming = {given.config.name for given in waiting} | {worker.name for worker in active}
    for given in waiting:
        if given.config.base not in coming:
            waiting.remove(given)
            return given
    return None


def _start(context: Any, given: Assignment) -> _Worker:
    prepare(given)
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(given, sender), name=given.config.name)
    process.start()
    sender.close()
    return _Worker(given, process, receiver)


def _listen(worker: _Worker, update: Callable[[str, Progress], None]) -> None:
    """Take in everything that the worker has sent."""
    try:
        while worker.connection.poll():
            message = worker.connection.recv()
            if isinstance(message, Progress):
                update(worker.name, message)
            else:
                worker.ending = message
    except (EOFError, OSError):
        return


def _finish(worker: _Worker, listener: Listener) -> None:
    """Settle a worker whose process has ended; raises LabError when the disk is full."""
    worker.process.join()
    worker.connection.close()
    state, message = worker.ending or ("failed", _cause_of_death(worker.process.exitcode))
    if worker.ending is None:
        fail(worker.given.folder, message)
    listener.end(worker.name, state, message)
    if state == "full":
        raise LabError(f"{message}: make room and repeat the command; nothing written is lost")


def _cause_of_death(code: int | None) -> str:
    if code is None or code >= 0:
        return f"the process of this run ended by itself with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = ", which is how systems end a process when memory runs out" if name == "SIGKILL" else ""
    return f"the process of this run was killed by {name}{hint}"


def _end(active: list[_Worker], listener: Listener) -> None:
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
            _listen(worker, lambda name, progress: None)
            worker.connection.close()
            listener.end(worker.name, *(worker.ending or ("stopped", "")))
