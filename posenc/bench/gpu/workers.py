"""Processes that make rows: one that dies, hangs or breaks its GPU takes one row with it."""

import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait

from posenc.bench.case import Unavailable
from posenc.bench.gpu.row import Found, Place, Row
from posenc.errors import UnsupportedError


def made(
    rows: Sequence[Row], place: Place, *, workers: int, seconds: float, until: float
) -> Iterator[tuple[Row, Found]]:
    """Each row and what was found, as they come; no row begins after `until` (time.monotonic).

    What a row raises is found as "failed", with what it says; why there is nothing to run, or that
    a backend refuses it, as "missing".
    """
    waiting, busy = list(rows), [_Worker(place) for _ in range(min(workers, len(rows)))]
    try:
        for worker in busy:
            worker.take(waiting, until)
        while any(worker.row for worker in busy):
            wait([worker.connection for worker in busy if worker.row], timeout=0.2)
            for worker in busy:
                if worker.row is None or (found := worker.answer(seconds)) is None:
                    continue
                yield worker.row, found
                worker.take(waiting, until)
    finally:
        for worker in busy:
            worker.end()


class _Worker:
    def __init__(self, place: Place) -> None:
        self.place = place
        self.row: Row | None = None
        self._start()

    def take(self, waiting: list[Row], until: float) -> None:
        """The next row, if there is one and time for it."""
        self.row = waiting.pop(0) if waiting and time.monotonic() < until else None
        if self.row is None:
            return
        if not self._process.is_alive():
            self._start()
        self._began = time.monotonic()
        self.connection.send(self.row)

    def answer(self, seconds: float) -> Found | None:
        """What came of its row, or None while it works."""
        if self.connection.poll():
            try:
                return self.connection.recv()
            except EOFError:
                self._process.join()
                return {"failed": f"the process ended with exit code {self._process.exitcode}"}
        if time.monotonic() - self._began > seconds:
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
    while True:
        row: Row = connection.recv()
        try:
            found = row.found(place)
        except (Unavailable, UnsupportedError, ModuleNotFoundError) as error:
            found = {"missing": str(error)}
        except Exception as error:
            # Whatever a kernel, a compiler or a peer raises is one row's, and ends no other.
            found = {"failed": f"{type(error).__name__}: {' '.join(str(error).split())[:600]}"}
        connection.send(found)
        if "failed" in found and not _usable(place):
            os._exit(1)


def _usable(place: Place) -> bool:
    """Whether the GPU still answers this process: after an illegal access it never does."""
    import torch

    if place.device != "cuda":
        return True
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return False
    return True
