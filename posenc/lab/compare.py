"""The main job: train a small decoder with each encoding, test it at longer lengths, report.

compare(Comparison(encodings=("rotary", "alibi")), display(sys.stderr))
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from posenc.errors import LabError, SettingError
from posenc.lab.complete import complete
from posenc.lab.config import Comparison, RunConfig
from posenc.lab.encodings import named
from posenc.lab.engine.engine import Engine
from posenc.lab.engine.local import LOCAL
from posenc.lab.folder import Run, locked, make_folder, read_run
from posenc.lab.hardware import cores
from posenc.lab.model import settings_of
from posenc.lab.progress import Display
from posenc.lab.published import Published
from posenc.lab.rates import check_seeds
from posenc.lab.text import Corpus, read_text, standard_library

# The best learning rate falls with the width; LOG.md has the rates that were tried.
RATE_TIMES_WIDTH = 0.4
TEST_BYTES = 2**16
FEWEST_SPANS = 8
# What a comparison hands to its runs as it stands.
SHARED = ("train_length", "dim", "depth", "heads", "batch")
# Testing takes about this share of a run, and a budget in minutes covers it.
TESTING_SHARE = 0.15


@dataclass(frozen=True)
class Outcome:
    """What a comparison left behind."""

    report: Path
    data: dict[str, Any]  # what report.json holds
    said: list[str]  # the first sentences of the page
    runs: list[Run]
    interrupted: bool

    @property
    def failed(self) -> list[Run]:
        return [run for run in self.runs if run.state == "failed"]


def compare(
    comparison: Comparison,
    display: Display,
    published: Sequence[Published] = (),
    engine: Engine = LOCAL,
) -> Outcome:
    """Train and test what is not done yet in the output folder, then write the report there.

    The report names those `published` claims that speak of its encodings, and never the engine.

    Raises PosencError before any work when an option, the text or the folder cannot be used, and
    LabError when the disk is full. After Ctrl-C the report holds what is finished, and the same
    command goes on from there.
    """
    from posenc.lab.report import write_report

    _check(comparison)
    corpus = read_text(comparison.text) if comparison.text else standard_library()
    if comparison.train_bytes is not None:
        corpus = corpus.shortened(comparison.train_bytes)
    configs = plan(comparison, corpus)
    out = comparison.out
    make_folder(out, "runs")
    with locked(out, wait=False):
        with engine.opened() as carrier:
            jobs, device = _jobs(comparison, engine.at_once()), engine.usual_device()
            stopped = complete(out, configs, corpus, jobs, display, device, carrier=carrier)
        runs = [run for config in configs if (run := read_run(out / "runs" / config.name))]
        try:
            command, language = comparison.command(), comparison.language
            written = write_report(out, runs, command, language, published)
        except OSError as error:
            raise LabError(f"the report in {out} cannot be written: {error.strerror}") from stopped
    if isinstance(stopped, LabError):
        raise stopped
    return Outcome(*written, runs, interrupted=stopped is not None)


def plan(comparison: Comparison, corpus: Corpus) -> list[RunConfig]:
    """The runs of a comparison, seed by seed, so that an early end has every encoding once.

    Raises PosencError for whatever would fail later: unknown names, settings that do not fit
    together, encodings that cannot be compared, too little text.
    """
    names = _names(comparison)
    minutes = None
    if comparison.minutes is not None:
        runs = len(names) * comparison.seeds
        share = min(1.0, _jobs(comparison, cores()) / runs)
        minutes = comparison.minutes * share * (1 - TESTING_SHARE)
    steps = comparison.steps
    if steps is None and minutes is None:
        steps = RunConfig.steps
    # A curve against length needs its point at the length that was trained.
    lengths = tuple(sorted({*comparison.test_lengths, comparison.train_length}))
    first = [
        RunConfig(
            **{name: getattr(comparison, name) for name in SHARED},
            encoding=name,
            corpus=corpus.summary["sha256"],
            test_lengths=lengths,
            steps=steps,
            minutes=minutes,
            learning_rate=RATE_TIMES_WIDTH / max(comparison.dim, 1),
            spans=max(FEWEST_SPANS, TEST_BYTES // max(lengths)),
        )
        for name in names
    ]
    corpus.require(comparison.train_length, max(lengths), FEWEST_SPANS)
    first = [replace(config, settings=settings_of(config)) for config in first]
    return [replace(config, seed=seed) for seed in range(comparison.seeds) for config in first]


def _check(comparison: Comparison) -> None:
    if not comparison.encodings:
        raise SettingError("no encoding is named: give at least one, as in --encodings none,rotary")
    if comparison.steps is not None and comparison.minutes is not None:
        raise SettingError(
            f"steps={comparison.steps} and minutes={comparison.minutes}: give one budget, not two"
        )
    if comparison.minutes is not None and not 0 < comparison.minutes < math.inf:
        raise SettingError(f"minutes is {comparison.minutes}: it must be a number above 0")
    if comparison.jobs is not None and comparison.jobs < 1:
        raise SettingError(f"jobs is {comparison.jobs}: it must be at least 1")
    check_seeds(comparison.seeds)


def _names(comparison: Comparison) -> tuple[str, ...]:
    """The encodings, each once, by whatever names they were called."""
    return tuple(dict.fromkeys(map(named, comparison.encodings)))


def _jobs(comparison: Comparison, at_once: int) -> int:
    """How many runs go at a time: as many as there is room for, unless chosen."""
    runs = len(_names(comparison)) * comparison.seeds
    return min(comparison.jobs or at_once, runs)
