"""One run in a process of its own, fresh and unable to harm another: started, heard, ended."""

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import Any

from posenc.lab.leftovers import sockets_in_own_folder
from posenc.lab.run import Assignment, Ending, work
from posenc.lab.train import Progress

PATIENCE_SECONDS = 20.0


@dataclass
class Worker:
    """The process of a run; `ending` is the state and the message that it sent last."""

    given: Assignment
    process: BaseProcess
    connection: multiprocessing.connection.Connection
    ending: tuple[Ending, str] | None = None

    @property
    def name(self) -> str:
        return self.given.config.name

    def listen(self, update: Callable[[Progress], None]) -> None:
        """Take in everything that the process has sent."""
        try:
            while self.connection.poll():
                message = self.connection.recv()
                if isinstance(message, Progress):
                    update(message)
                else:
                    self.ending = message
        except (EOFError, OSError):
            return

    @property
    def killed(self) -> bool:
        """Whether a signal ended the process before it could say how its run ended."""
        return self.ending is None and (self.process.exitcode or 0) < 0

    def cause_of_death(self) -> str:
        """What is to be told of a process that has ended and said nothing."""
        code = self.process.exitcode
        if code is None or code >= 0:
            return f"the process of this run ended by itself with code {code}"
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        memory = ", which is how systems end a process when memory runs out"
        return f"the process of this run was killed by {name}{memory if name == 'SIGKILL' else ''}"


def start(context: Any, given: Assignment) -> Worker:
    """Begin a prepared run in a process of `server`."""
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(given, sender), name=given.config.name)
    process.start()
    sender.close()
    return Worker(given, process, receiver)


def wait(workers: Sequence[Worker], seconds: float) -> None:
    """Until one of them says something or ends."""
    handles: list[Any] = [worker.connection for worker in workers]
    handles += [worker.process.sentinel for worker in workers]
    multiprocessing.connection.wait(handles, timeout=seconds)


def server(preloaded: Sequence[str] = (), *, transformers: bool = False) -> Any:
    """What processes of runs are started by: it loads torch once, and each run is a fork of it.

    A fork has memory figures of its own. The server is made once and lives as long as the process
    that asked for it.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    models = ["posenc.lab.preload_models"] if transformers else []
    context.set_forkserver_preload([*preloaded, "posenc.lab.preload", *models])
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
