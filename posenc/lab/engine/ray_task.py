"""What a task of Ray does on its worker: one run, in a process and a folder of its own.

Ray uses its worker processes again, so the run is a fork of a server that has done nothing but
import torch, as it is on one machine: nothing of a run before shows in the next, and torch is not
loaded once for each.
"""

import os
import pickle
import platform
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

import posenc
from posenc.errors import PosencError, SettingError
from posenc.lab.config import RunConfig
from posenc.lab.engine.parcel import LARGE, Outbox, Sent, Token
from posenc.lab.engine.worker import PATIENCE_SECONDS, server, start, wait
from posenc.lab.folder import WEIGHTS
from posenc.lab.hardware import chosen_device
from posenc.lab.leftovers import own_prefix
from posenc.lab.run import Assignment, prepare
from posenc.lab.train import Progress

POST_SECONDS = 0.5
# A head that is busy may take long; one that is gone does not answer at all.
ANSWER_SECONDS = 120.0


@dataclass(frozen=True)
class Versions:
    """What has to be the same everywhere, for rows to be."""

    posenc: str = posenc.__version__
    torch: str = torch.__version__.partition("+")[0]


@dataclass(frozen=True)
class Parcel:
    """All that a run on another machine begins with.

    small  the files of its folder by name, and `large` those that lie in Ray's store; as they are
           in the driver's folder, where the worker sees that by `token`
    base   the weights of the run that it begins with, in Ray's store
    path   where the driver finds modules, for encodings of people's own
    """

    attempt: str
    config: RunConfig
    summary: dict[str, Any]
    token: Token
    small: dict[str, bytes]
    large: dict[str, Any]
    base: Any
    threads: int
    device: str
    path: tuple[str, ...]
    versions: Versions = field(default_factory=Versions)


@dataclass(frozen=True)
class Letter:
    """What an attempt tells: files that changed, how far it is, and how it ended, if it did.

    The states are those of `posenc.lab.run.work`, and besides `killed`, of a process that a signal
    ended, and `unfit`, of a machine that cannot carry the run out.
    """

    files: list[tuple[str, Sent]]
    progress: Progress | None = None
    ending: tuple[str, str] | None = None


def carry_out(parcel: Parcel, text: bytes, mailbox: Any) -> None:
    """Carry the run of `parcel` out, and post all that comes of it to `mailbox`."""

    def post(letter: Letter, how: Any = mailbox.post) -> bool:
        return _answer(how.remote(parcel.attempt, pickle.dumps(letter)))

    with tempfile.TemporaryDirectory(prefix=own_prefix()) as root:
        try:
            given, outbox = _unpack(parcel, text, Path(root))
        except PosencError as error:
            post(Letter([], ending=("unfit", f"{error} (on {platform.node()})")))
            return
        prepare(given)
        if post(Letter(outbox.changed()), mailbox.begin):
            _run(given, outbox, post)


def _run(given: Assignment, outbox: Outbox, post: Any) -> None:
    context = server(["ray"], transformers=bool(given.config.model))
    worker = start(context, given)
    heard: list[Progress] = []
    posted, deadline = time.monotonic(), None
    try:
        while True:
            wait([worker], POST_SECONDS)
            ended = not worker.process.is_alive()
            worker.listen(heard.append)
            now = time.monotonic()
            if ended:
                break
            if deadline is not None and now > deadline:
                worker.process.kill()
            if now - posted >= POST_SECONDS:
                goes_on = post(Letter(outbox.changed(), heard[-1] if heard else None))
                heard.clear()
                posted = time.monotonic()
                if not goes_on and deadline is None:
                    deadline = now + PATIENCE_SECONDS
                    worker.process.terminate()
        worker.process.join()
        state = "killed" if worker.killed else "failed"
        ending = worker.ending or (state, worker.cause_of_death())
        post(Letter(outbox.changed(), heard[-1] if heard else None, ending))
    finally:
        if worker.process.is_alive():
            worker.process.terminate()
            worker.process.join(PATIENCE_SECONDS)
            worker.process.kill()
        worker.connection.close()


def _unpack(parcel: Parcel, text: bytes, root: Path) -> tuple[Assignment, Outbox]:
    """The assignment in a folder below `root`, and what sends on what comes to be there."""
    if parcel.versions != Versions():
        raise SettingError(
            f"the command runs {parcel.versions} and this worker {Versions()}: install the same"
        )
    device = chosen_device(parcel.device)
    sys.path += [entry for entry in parcel.path if entry not in sys.path]
    seen = parcel.token.found()
    config = parcel.config
    folder = root / "runs" / config.name
    folder.mkdir(parents=True)
    for name, data in parcel.small.items():
        (folder / name).write_bytes(data)
    there = parcel.token.out / "runs"
    for name in LARGE:
        if name in parcel.large:
            _fetch(parcel.large[name], there / config.name / name, folder / name, seen)
    if parcel.base is not None:
        base = folder.parent / config.base / WEIGHTS
        base.parent.mkdir()
        _fetch(parcel.base, there / config.base / WEIGHTS, base, seen)
    (root / "text").write_bytes(text)
    given = Assignment(config, folder, root / "text", parcel.summary, parcel.threads, device)
    outbox = Outbox(folder, parcel.attempt, there / config.name if seen else None)
    outbox.skip()
    return given, outbox


def _fetch(stored: Any, shared: Path, to: Path, seen: bool) -> None:
    """By way of the shared folder where there is one: it is nearer, or no farther."""
    if seen:
        os.symlink(shared, to)
        return
    to.write_bytes(_answer(stored))


def _answer(reference: Any) -> Any:
    # While a task waits in ray.get, Ray lends its cores to the next task.
    return reference.future().result(ANSWER_SECONDS)
