"""Two processes of one gloo group, which call the functions that a test hands them."""

import os
import socket
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.multiprocessing as multiprocessing

from posenc.lab.train.together import group


class Pair:
    """`pair(function, *args)` calls it in both, and returns what each found, in order of rank.

    Both are started at once, for importing torch takes seconds.
    """

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        context = multiprocessing.get_context("spawn")
        pipes = [context.Pipe() for _ in range(2)]
        self._connections = [own for own, _ in pipes]
        self._processes = [
            context.Process(target=_serve, args=(rank, port, theirs), daemon=True)
            for rank, (_, theirs) in enumerate(pipes)
        ]
        for process in self._processes:
            process.start()

    def __call__(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        for connection in self._connections:
            connection.send((function, args))
        found = [connection.recv() for connection in self._connections]
        for rank, (_, error) in enumerate(found):
            assert error is None, f"process {rank}: {error}"
        return [result for result, _ in found]

    def close(self) -> None:
        for connection in self._connections:
            connection.close()
        for process in self._processes:
            process.join(30)
            process.kill()


def _serve(rank: int, port: int, connection: Connection) -> None:
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    with group("cpu"):
        while True:
            try:
                function, args = connection.recv()
            except EOFError:
                return
            try:
                connection.send((function(*args), None))
            except Exception:
                connection.send((None, traceback.format_exc()))
