"""The process that is connected to a cluster of Ray, as `ray_process` has it."""

import os
import signal
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from posenc.errors import LabError, PosencError
from posenc.lab.engine.ray_driver import Driver, said
from posenc.lab.train import Progress

if TYPE_CHECKING:
    from posenc.lab.engine.ray import Ray


class _Told:
    """A listener that passes on what it hears; where nobody is left to hear, runs end."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def begin(self, name: str) -> None:
        self.connection.send(("begin", name))

    def update(self, name: str, progress: Progress) -> None:
        self.connection.send(("update", name, progress))

    def lost(self, name: str, message: str) -> None:
        self.connection.send(("lost", name, message))

    def end(self, name: str, state: str, message: str) -> None:
        self.connection.send(("end", name, state, message))


def attend(connection: Connection, engine: "Ray") -> None:
    """The life of the process that is connected: batches come, and what they come to goes back."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Ray writes of every worker that dies to the terminal, among bars and before --json.
    silence = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(silence, stream)
    import ray

    from posenc.lab.engine import cluster

    with suppress(EOFError, OSError):
        while True:
            given = connection.recv()
            answer: BaseException | None = None
            try:
                cluster.connect(engine.address)
                cluster.require(engine.address, engine.cpus_per_run, engine.gpus_per_run)
                if given is not None:
                    batch, shared = given
                    Driver(engine, batch, shared, _Told(connection), connection).run()
            except (ray.exceptions.RayError, ConnectionError) as error:
                answer = gone(engine, said(error))
            except (PosencError, TimeoutError, KeyboardInterrupt, OSError) as error:
                answer = error
            except Exception:
                answer = RuntimeError(traceback.format_exc())
            connection.send(("over", answer))


def gone(engine: "Ray", reason: str) -> LabError:
    return LabError(
        f"--address {engine.address}: the cluster does not answer any more ({reason}); what is "
        "done is kept, and the same command goes on"
    )
