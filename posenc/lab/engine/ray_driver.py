"""Hands runs out as tasks of Ray, and takes in what they tell.

Ray's own retries would repeat a task as it was first handed out, from its beginning. Here a run
whose worker or node died is handed out again with the checkpoint that came last.
"""

import os
import pickle
import secrets
import sys
import time
from collections import Counter, deque
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from posenc.errors import LabError
from posenc.lab.config import RunConfig
from posenc.lab.engine.engine import Batch, Listener, next_ready, too_late
from posenc.lab.engine.mailbox import Mailbox
from posenc.lab.engine.parcel import LARGE, Token, receive, remove_arriving
from posenc.lab.engine.ray_task import Letter, Parcel, carry_out
from posenc.lab.folder import CHECKPOINT, MANIFEST, RESULTS, WEIGHTS
from posenc.lab.run import Assignment, fail, prepare

if TYPE_CHECKING:
    from posenc.lab.engine.ray import Ray

LOOK_SECONDS = 0.2
# After this long without an answer the head is taken for gone.
ANSWER_SECONDS = 60.0
# Runs write their last checkpoints, and these travel.
PATIENCE_SECONDS = 60.0


@dataclass
class _Attempt:
    """A run that was handed out."""

    config: RunConfig
    number: str
    task: Any
    begun: bool = False


class Driver:
    """One batch on a cluster that this process is connected to."""

    def __init__(
        self, engine: "Ray", batch: Batch, shared: Token, listener: Listener, orders: Connection
    ) -> None:
        import ray

        # As untyped as what comes back from tasks.
        self.ray: Any = ray
        self.engine, self.batch, self.shared = engine, batch, shared
        self.orders, self.listener = orders, listener
        self.waiting = deque(batch.configs)
        self.active: dict[str, _Attempt] = {}
        self.late = self.stopping = False
        self.read = 0
        self.shown: set[str] = set()
        self.deaths: Counter[str] = Counter()
        self.bases: dict[str, Any] = {}
        corpus = batch.corpus
        self.text = self.ray.put(corpus.train + corpus.test if corpus else b"")
        self.task = self.ray.remote(
            num_cpus=engine.cpus_per_run, num_gpus=engine.gpus_per_run, max_retries=0
        )(carry_out)
        # The head's own resource holds the mailbox there, for the head's death ends all anyway.
        head = {"node:__internal_head__": 0.001}
        self.mailbox = self.ray.remote(Mailbox).options(num_cpus=0, resources=head).remote()

    def run(self) -> None:
        """As `Carrier.run_all`; it is told to be late or to stop. RayError: the cluster is gone."""
        try:
            self._carry_out()
        except (self.ray.exceptions.RayError, ConnectionError):
            # Nobody is left to be asked.
            raise
        except BaseException:
            self._stop()
            raise
        self.ray.kill(self.mailbox)

    def _carry_out(self) -> None:
        while self.waiting or self.active:
            self._obey()
            if self.late and self.waiting and not self.active:
                raise too_late(len(self.waiting))
            while not self.late and len(self.active) < self.batch.jobs:
                config = next_ready(self.waiting, (x.config.name for x in self.active.values()))
                if config is None:
                    break
                self._hand_out(config)
            self._look(LOOK_SECONDS)

    def _obey(self) -> None:
        try:
            while self.orders.poll():
                if self.orders.recv() == "stop":
                    raise KeyboardInterrupt
                self.late = True
                self._close()
        except EOFError:
            raise KeyboardInterrupt from None

    def _look(self, seconds: float) -> None:
        """Take in what has come within `seconds`, and settle the runs that have ended."""
        tasks = {attempt.task: attempt for attempt in self.active.values()}
        ended, _ = self.ray.wait(list(tasks), num_returns=len(tasks), timeout=seconds)
        # A task ends after its last letter has been taken in by the mailbox.
        self._read_letters()
        for attempt in map(tasks.__getitem__, ended):
            if attempt.number in self.active:
                self._settle(attempt)

    def _ask(self, method: Any, *arguments: Any) -> Any:
        return self.ray.get(method.remote(*arguments), timeout=ANSWER_SECONDS)

    def _hand_out(self, config: RunConfig) -> None:
        folder = self.batch.folder(config.name)
        folder.mkdir(parents=True, exist_ok=True)
        remove_arriving(folder)
        base = None
        if config.base:
            base = self._stored_base(config.base)
        found = {name: folder / name for name in (MANIFEST, RESULTS, *LARGE)}
        found = {name: path.read_bytes() for name, path in found.items() if path.exists()}
        number = secrets.token_hex(8)
        parcel = Parcel(
            attempt=number,
            config=config,
            summary=self.batch.summary(config),
            token=self.shared,
            small={name: data for name, data in found.items() if name not in LARGE},
            large={name: self.ray.put(data) for name, data in found.items() if name in LARGE},
            base=base,
            threads=self.engine.cpus_per_run,
            device=self.engine.device(self.batch.device),
            path=tuple(map(os.path.abspath, sys.path)),
        )
        task = self.task.options(name=config.name).remote(parcel, self.text, self.mailbox)
        self.active[number] = _Attempt(config, number, task)

    def _stored_base(self, name: str) -> Any:
        if name not in self.bases:
            path = self.batch.folder(name) / WEIGHTS
            # Without them the run itself says what is missing, as it does on one machine.
            self.bases[name] = self.ray.put(path.read_bytes()) if path.exists() else None
        return self.bases[name]

    def _read_letters(self) -> None:
        for number, data in self._ask(self.mailbox.take, self.read):
            letter: Letter = pickle.loads(data)
            attempt = self.active.get(number)
            if attempt is not None:
                receive(self.batch.folder(attempt.config.name), letter.files)
            # Counted only now, so that after Ctrl-C it comes once more if it was not taken in.
            self.read += 1
            if attempt is not None:
                self._heed(attempt, letter)

    def _heed(self, attempt: _Attempt, letter: Letter) -> None:
        name = attempt.config.name
        attempt.begun = True
        if any(file == CHECKPOINT for file, _ in letter.files):
            self.deaths[name] = 0
        if letter.ending is not None:
            self._conclude(attempt, *letter.ending)
        # While runs end, a listener that raises would leave the others running.
        elif not self.stopping:
            self._begin(name)
            if letter.progress is not None:
                self.listener.update(name, letter.progress)

    def _settle(self, attempt: _Attempt) -> None:
        """Settle an attempt whose task has ended without saying how its run did."""
        del self.active[attempt.number]
        try:
            self.ray.get(attempt.task)
            # The mailbox was closed before it could begin.
            self.waiting.appendleft(attempt.config)
        except self.ray.exceptions.RayError as error:
            self._raise_if_hopeless(error)
            # What it sent before is in the folder; what it may send after that is not wanted.
            self._ask(self.mailbox.forget, attempt.number)
            self._lost(attempt.config, said(error))

    def _conclude(self, attempt: _Attempt, state: str, message: str) -> None:
        """Settle an attempt that has said how its run ended."""
        del self.active[attempt.number]
        name = attempt.config.name
        if state == "killed":
            self._lost(attempt.config, message)
        elif state == "unfit":
            self._refuse(message)
        else:
            self._end(name, state, message)
            if state == "full":
                advice = "make room and repeat the command; nothing written is lost"
                self._refuse(f"{message}: {advice}")

    def _refuse(self, message: str) -> None:
        """Raise LabError, but for the runs that are on their way to an end anyway."""
        if not self.stopping:
            raise LabError(message)

    def _begin(self, name: str) -> None:
        if name not in self.shown:
            self.shown.add(name)
            self.listener.begin(name)

    def _end(self, name: str, state: str, message: str) -> None:
        self._begin(name)
        self.shown.remove(name)
        self.listener.end(name, state, message)

    def _raise_if_hopeless(self, error: Exception) -> None:
        """Raise LabError for what would happen to every task, as posenc not being there."""
        errors = self.ray.exceptions
        cause = getattr(error, "cause", None)
        unheard = isinstance(cause, (errors.RayError, TimeoutError))
        own = isinstance(error, errors.RayTaskError) and not unheard
        if own or isinstance(error, errors.RuntimeEnvSetupError):
            raise LabError(
                f"a worker at --address {self.engine.address} cannot carry runs out: "
                f"{said(cause or error)}; every node needs posenc[lab] of this version"
            ) from error

    def _lost(self, config: RunConfig, why: str) -> None:
        """Give a run whose worker died to another, or record that it failed."""
        name, folder = config.name, self.batch.folder(config.name)
        if self.stopping:
            return
        self.deaths[name] += 1
        if self.deaths[name] <= self.engine.retries:
            if name in self.shown:
                self.listener.lost(name, why)
            self.waiting.appendleft(config)
            return
        if not (folder / MANIFEST).exists():
            summary, threads = self.batch.summary(config), self.engine.cpus_per_run
            prepare(Assignment(config, folder, folder, summary, threads))
        fail(folder, why)
        self._end(name, "failed", why)

    def _close(self) -> None:
        """Let no further run begin: those that have not go back to the waiting."""
        self._ask(self.mailbox.close)
        self._read_letters()
        for attempt in [x for x in self.active.values() if not x.begun]:
            self.ray.cancel(attempt.task)
            del self.active[attempt.number]
            self.waiting.appendleft(attempt.config)

    def _stop(self) -> None:
        """Ask the runs at work for a checkpoint and wait for them; a second Ctrl-C kills them."""
        self.stopping = True
        try:
            self._ask(self.mailbox.stop)
            self._close()
            deadline = time.monotonic() + PATIENCE_SECONDS
            while self.active and time.monotonic() < deadline:
                self._look(LOOK_SECONDS)
        finally:
            for attempt in self.active.values():
                self.ray.cancel(attempt.task, force=True)
            self.ray.kill(self.mailbox)


def said(error: Exception) -> str:
    """Its kind, and the first line of what it says."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
