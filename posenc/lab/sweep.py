"""Every encoding at every train length, with a learning rate of its own and several seeds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from posenc.errors import SettingError
from posenc.lab.arms import Arm, of_runs
from posenc.lab.complete import complete
from posenc.lab.config import RunConfig
from posenc.lab.encodings import named
from posenc.lab.engine.engine import Engine
from posenc.lab.engine.local import LOCAL
from posenc.lab.folder import locked, make_folder, read_run
from posenc.lab.model import settings_of
from posenc.lab.progress import Display
from posenc.lab.rates import check_seeds, looking, with_rate
from posenc.lab.tasks import Task, find
from posenc.lab.text import Corpus


@dataclass(frozen=True)
class Sweep:
    """What is run: `config` of each encoding at each train length, for as many seeds.

    What is named twice is run once.

    rates   learning rates to choose from by the loss at the train length; with none or one, the
            one of `config`
    """

    config: RunConfig
    encodings: tuple[str, ...]
    train_lengths: tuple[int, ...]
    seeds: int = 5
    rates: tuple[float, ...] = ()
    out: Path = Path("posenc-lab")
    jobs: int | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.seeds < 1 or not self.encodings or not self.train_lengths:
            raise SettingError(
                f"lab run of {list(self.encodings)} at {list(self.train_lengths)}, {self.seeds} "
                "seeds: give at least one of each"
            )
        check_seeds(self.seeds)

    def arms(self, corpus: Corpus | None) -> list[RunConfig]:
        """Without seeds; raises PosencError for what would fail later, as a text too short."""
        task = find(self.config.task)
        if self.config.solved is not None and type(task).solved is Task.solved:
            raise SettingError(
                f"lab run --solved {self.config.solved}: training on task {task.spec} has no share "
                "of right answers; leave --solved away"
            )
        sha = corpus.summary["sha256"] if corpus is not None else ""
        lengths = self.config.test_lengths
        found = [
            replace(
                self.config,
                encoding=encoding,
                train_length=train,
                test_lengths=tuple(sorted({train, *lengths})),
                corpus=sha,
            )
            for encoding in dict.fromkeys(map(named, self.encodings))
            for train in dict.fromkeys(self.train_lengths)
        ]
        if corpus is not None:
            read = getattr(task, "train_bytes", None)
            trained = replace(corpus, train=corpus.train[:read])
            trained.require(max(self.train_lengths), max(*lengths, *self.train_lengths), 1)
        return [replace(config, settings=settings_of(config)) for config in found]


def sweep(
    chosen: Sweep, corpus: Corpus | None, display: Display, engine: Engine = LOCAL
) -> tuple[list[Arm], BaseException | None]:
    """Do what is not done; what came out, and what ended it early, if anything did."""
    arms, out = chosen.arms(corpus), chosen.out
    make_folder(out, "runs")
    jobs = engine.at_once() if chosen.jobs is None else chosen.jobs

    with locked(out, wait=False), engine.opened() as carrier:

        def done(configs: Sequence[RunConfig]) -> BaseException | None:
            if not configs:
                return None
            return complete(out, configs, corpus, jobs, display, chosen.device, carrier=carrier)

        stopped = done([one for arm in arms for one in looking(chosen.rates, arm)])
        rated = [with_rate(chosen.rates, arm, out) for arm in arms]
        # Seed by seed, so that an early end has every arm as often.
        configs = [replace(arm, seed=seed) for seed in range(chosen.seeds) for arm in rated if arm]
        stopped = stopped or done(configs)
    found = [read_run(out / "runs" / config.name) for config in configs]
    return of_runs(run for run in found if run is not None), stopped
