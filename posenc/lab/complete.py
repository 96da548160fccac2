"""Carry out the runs of a folder that are not done yet."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from posenc.atomic_files import replace_file
from posenc.errors import LabError, SettingError
from posenc.lab.config import RunConfig
from posenc.lab.folder import read_run
from posenc.lab.hardware import chosen_device, cores
from posenc.lab.leftovers import own_prefix, remove_leftovers
from posenc.lab.progress import Display
from posenc.lab.run import Assignment
from posenc.lab.text import Corpus
from posenc.lab.workers import run_all


def complete(
    out: Path,
    configs: Sequence[RunConfig],
    corpus: Corpus | None,
    jobs: int,
    display: Display,
    device: str = "cpu",
    until: float | None = None,
) -> BaseException | None:
    """Do what is not done; returns what stopped it early, if anything did.

    Runs are folders below `out`, which must be there. `corpus` is what runs read whose task is
    a text. After `until`, of time.monotonic, no run begins: TimeoutError.
    """
    device = chosen_device(device)
    if jobs < 1:
        raise SettingError(f"jobs is {jobs}: it must be at least 1")
    folders = [out / "runs" / config.name for config in configs]
    found = [read_run(folder) for folder in folders]
    for problem in (problem for run in found if run for problem in run.problems):
        display.note(problem)
    done = [run is not None and run.state == "done" for run in found]
    display.plan(len(configs), sum(done))
    if all(done):
        return None
    remove_leftovers()
    with tempfile.TemporaryDirectory(prefix=own_prefix()) as temporary:
        text = Path(temporary, "text")
        try:
            replace_file(text, corpus.train + corpus.test if corpus else b"")
        except OSError as error:
            raise LabError(f"{text} cannot be written: {error.strerror}") from None
        assignments = [
            Assignment(
                config,
                folder,
                text,
                corpus.summary if corpus and config.of_text else {},
                threads=max(1, cores() // jobs),
                device=device,
            )
            for config, folder, skip in zip(configs, folders, done, strict=True)
            if not skip
        ]
        stopped: BaseException
        try:
            run_all(assignments, jobs, display, until)
            return None
        except (KeyboardInterrupt, LabError, TimeoutError) as error:
            stopped = error
        except OSError as error:
            stopped = LabError(f"{error.filename or out}: {error.strerror}")
    display.stopped()
    return stopped
