"""Carry out the runs of a folder that are not done yet."""

from collections.abc import Sequence
from pathlib import Path

from posenc.errors import LabError, SettingError
from posenc.lab.config import RunConfig
from posenc.lab.engine.engine import Batch, Carrier
from posenc.lab.engine.local import LOCAL
from posenc.lab.folder import is_complete, read_run
from posenc.lab.leftovers import remove_leftovers
from posenc.lab.progress import Display
from posenc.lab.text import Corpus


def complete(
    out: Path,
    configs: Sequence[RunConfig],
    corpus: Corpus | None,
    jobs: int,
    display: Display,
    device: str = "cpu",
    until: float | None = None,
    carrier: Carrier = LOCAL,
) -> BaseException | None:
    """Do what is not done or was damaged since; returns what stopped it early, if anything did.

    Runs are folders below `out`, which must be there. `corpus` is what runs read whose task is
    a text. After `until`, of time.monotonic, no run begins: TimeoutError.
    """
    if jobs < 1:
        raise SettingError(f"jobs is {jobs}: it must be at least 1")
    found = [read_run(out / "runs" / config.name) for config in configs]
    done = [run is not None and is_complete(run.rows) for run in found]
    if not all(done):
        # Refused before anything is shown.
        carrier.check(device)
    for problem in (problem for run in found if run for problem in run.problems):
        display.note(problem)
    display.plan(len(configs), sum(done))
    if all(done):
        return None
    remove_leftovers()
    todo = tuple(config for config, skip in zip(configs, done, strict=True) if not skip)
    stopped: BaseException
    try:
        carrier.run_all(Batch(out, todo, corpus, jobs, device), display, until)
        return None
    except (KeyboardInterrupt, LabError, TimeoutError) as error:
        stopped = error
    except OSError as error:
        stopped = LabError(f"{error.filename or out}: {error.strerror}")
    display.stopped()
    return stopped
