"""Processes that make rows: one that dies, hangs or breaks its GPU takes one row with it."""

import gc
import multiprocessing
import os
import time
import traceback
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Self

from posenc.bench.case import Unavailable
from posenc.bench.gpu.row import Found, Place, Row
from posenc.errors import UnsupportedError


class Workers:
    """As many processes as are asked for at once; they stay for the rows that come next."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._all: list[_Worker] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self._all:
            worker.end()

    def made(
        self, rows: Sequence[Row], *, at_once: int = 1, seconds: float, until: float
    ) -> Iterator[tuple[Row, Found]]:
        """Each row and what was found, as they come; none begins after `until` (time.monotonic).

        What a row raises is found as "failed", with what it says; why there is nothing to run, or
        that a backend refuses it, as "missing".
        """
        if time.monotonic() >= until:
            return
        waiting, at_once = list(rows), min(at_once, len(rows))
        self._all += [_Worker(self.place) for _ in range(at_once - len(self._all))]
        busy = self._all[:at_once]
        threads = max(1, (os.cpu_count() or 1) // max(1, at_once))
        for worker in busy:
            worker.take(waiting, until, threads)
        while any(worker.row for worker in busy):
            wait([worker.connection for worker in busy if worker.row], timeout=0.2)
            for worker in busy:
                if worker.row is None or (found := worker.answer(seconds)) is None:
                    continue
                yield worker.row, found
                worker.take(waiting, until, threads)


class _Worker:
    def __init__(self, place: Place) -> None:
        self.place = place
        self.row: Row | None = None
        self._start()

    def take(self, waiting: list[Row], until: float, threads: int) -> None:
        """The next row, if there is one and time for it."""
        self.row = waiting.pop(0) if waiting and time.monotonic() < until else None
        if self.row is None:
            return
        if not self._process.is_alive():
            self._start()
        self._began: float | None = None
        self.connection.send((self.row, threads))

    def answer(self, seconds: float) -> Found | None:
        """What came of its row, or None while it works."""
        if self.connection.poll():
            try:
                told = self.connection.recv()
            except EOFError:
                self._process.join()
                return {"failed": f"the process ended with exit code {self._process.exitcode}"}
            if told is not None:
                return told
            # A new process takes a while to begin, which is not the row's time.
            self._began = time.monotonic()
        if self._began is not None and time.monotonic() - self._began > seconds:
            self._process.kill()
            self._process.join()
            return {"failed": f"it took longer than {seconds:.0f} s"}
        return None

    def end(self) -> None:
        self._process.kill()
        self._process.join()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self.place), daemon=True)
        self._process.start()
        theirs.close()


def _serve(connection: Connection, place: Place) -> None:
    import torch

    while True:
        row, threads = connection.recv()
        connection.send(None)
        try:
            torch.set_num_threads(threads)
            found = row.found(place)
        except (Unavailable, UnsupportedError, ModuleNotFoundError) as error:
            found = {"missing": str(error)}
        except Exception as error:
            # Whatever a kernel, a compiler or a peer raises is one row's, and ends no other.
            told = f"{type(error).__name__}: {' '.join(str(error).split())[:600]}"
            found = {"failed": f"{told} ({' < '.join(_frames(error))})"}
        connection.send(found)
        if not _usable(place):
            os._exit(1)
        if place.device == "cuda":
            # The next row may be another process's, which needs the memory.
            gc.collect()
            torch.cuda.empty_cache()


def _frames(error: Exception) -> list[str]:
    """Where it was raised, and through which lines of posenc: last first, five at most."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames[:-1] if f"{os.sep}posenc{os.sep}" in frame.filename]
    return [
        f"{'/'.join(frame.filename.split(os.sep)[-2:])}:{frame.lineno}"
        for frame in reversed([*ours, frames[-1]][-5:])
    ]


def _usable(place: Place) -> bool:
    """Whether the GPU still answers this process: after an illegal access it never does, and after
    a capture that broke it draws no numbers.
    """
    import torch

    if place.device != "cuda":
        return True
    try:
        torch.rand(1, device=place.device)
        torch.cuda.synchronize()
    except RuntimeError:
        return False
    return True
