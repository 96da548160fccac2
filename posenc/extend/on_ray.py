"""Measure cells on a cluster of Ray: each worker loads the model once and takes cell after cell."""

import contextlib
import platform
import sys
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ray
import torch

from posenc.encodings.scaling import LongRoPE
from posenc.errors import LabError, SettingError
from posenc.extend.cells import Cell, Lengths
from posenc.extend.material import Material
from posenc.extend.measuring import Row, here, measured
from posenc.extend.subject import load_subject
from posenc.extend.work import Work
from posenc.lab.engine import cluster
from posenc.lab.engine.ray import Ray
from posenc.lab.engine.ray_driver import said
from posenc.lab.engine.ray_task import Versions

LOOK_SECONDS = 0.5


class Measurer:
    """A model on a worker, and what it reads."""

    def __init__(
        self,
        source: Path,
        identity: str,
        material: Material,
        lengths: Lengths,
        seed: int,
        threads: int,
        device: str,
        versions: Versions,
        found: LongRoPE | None = None,
    ) -> None:
        node = platform.node()
        if versions != Versions():
            raise SettingError(f"the command runs {versions} and {node} {Versions()}: be it one")
        torch.set_num_threads(threads)
        subject = load_subject(source)
        if subject.identity != identity:
            raise SettingError(f"{source} is another model on {node} than where the command runs")
        subject.model.to(device)
        self.work = Work(replace(subject, found=found), material, lengths, seed, Path())

    def ready(self) -> None:
        """Answers once the model is loaded."""

    def measure(self, cell: Cell) -> Row | str:
        return measured(self.work, cell)


@dataclass(frozen=True)
class OnRay:
    """Measures by workers of a cluster, as many as it has room for.

    The model must lie at the same absolute path on every node. A cell whose worker dies is given to
    another. Methods that were trained on are measured here, where their weights are.
    """

    engine: Ray

    def check(self) -> None:
        """Raises PosencError where the cluster does not answer, or has no room for a worker."""
        cluster.connect(self.engine.address)
        cluster.require(self.engine.address, self.engine.cpus_per_run, self.engine.gpus_per_run)

    def __call__(self, work: Work, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Row | str]]:
        away = deque(cell for cell in cells if not cell.steps)
        if away:
            self.check()
            workers = _Workers(self.engine, work)
            try:
                # Ray prints what it has to say of workers that die, and --json is for programs.
                with contextlib.redirect_stdout(sys.stderr):
                    yield from workers.measured(away)
            except (ray.exceptions.RayError, ConnectionError) as error:
                raise LabError(
                    f"--address {self.engine.address}: the cluster does not answer any more "
                    f"({said(error)}); what is done is kept, and the same command goes on"
                ) from error
            finally:
                workers.end()
        yield from here(work, [cell for cell in cells if cell.steps])


class _Workers:
    """Those that load the model, have nothing to do, and measure."""

    def __init__(self, engine: Ray, work: Work) -> None:
        self.engine = engine
        self.loading: dict[Any, Any] = {}
        self.idle: list[Any] = []
        self.busy: dict[Any, tuple[Any, Cell]] = {}
        self.deaths: Counter[Cell] = Counter()
        self.make = ray.remote(
            num_cpus=engine.cpus_per_run, num_gpus=engine.gpus_per_run, max_restarts=0
        )(Measurer)
        self.given = (
            Path(work.source).absolute(),
            work.subject.identity,
            ray.put(work.material),
            work.lengths,
            work.seed,
            engine.cpus_per_run,
            engine.device("auto"),
            Versions(),
            work.subject.found,
        )

    def measured(self, waiting: deque[Cell]) -> Iterator[tuple[Cell, Row | str]]:
        while waiting or self.busy:
            self._hire(len(waiting))
            while waiting and self.idle:
                worker, cell = self.idle.pop(), waiting.popleft()
                self.busy[worker.measure.remote(cell)] = worker, cell
            ended, _ = ray.wait([*self.busy, *self.loading], timeout=LOOK_SECONDS)
            for answer in ended:
                if answer in self.loading:
                    self._loaded(answer)
                    continue
                worker, cell = self.busy.pop(answer)
                try:
                    row = ray.get(answer)
                except ray.exceptions.RayActorError as error:
                    self.deaths[cell] += 1
                    if self.deaths[cell] <= self.engine.retries:
                        waiting.appendleft(cell)
                    else:
                        yield cell, said(error)
                    continue
                self.idle.append(worker)
                yield cell, row

    def end(self) -> None:
        working = [worker for worker, _ in self.busy.values()]
        for worker in (*self.loading.values(), *self.idle, *working):
            ray.kill(worker)

    def _hire(self, waiting: int) -> None:
        """As many workers as the cluster has room for now, and no more than there are cells."""
        room = cluster.room(self.engine.cpus_per_run, self.engine.gpus_per_run)
        have = len(self.loading) + len(self.idle) + len(self.busy)
        # One at least: where a node has just gone, it waits for another.
        for _ in range(have, max(1, min(room, waiting + len(self.busy)))):
            worker: Any = self.make.remote(*self.given)
            self.loading[worker.ready.remote()] = worker

    def _loaded(self, answer: Any) -> None:
        """Take a worker that has the model; raises LabError where it cannot be loaded."""
        worker = self.loading.pop(answer)
        try:
            ray.get(answer)
        except ray.exceptions.RayActorError as error:
            if getattr(error, "actor_init_failed", False):
                reason = str(error).strip().splitlines()[-1]
                raise LabError(
                    f"a worker at --address {self.engine.address} cannot measure: {reason}"
                ) from error
            return
        self.idle.append(worker)
