"""Show the rows of runs in TensorBoard or trackio: of what has ended, and of what goes on.

Losses of training stand at their step, what was tested at its length, what a run cost at 0.
"""

import importlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from posenc.errors import LabError
from posenc.lab.folder import Run
from posenc.lab.rows import is_number
from posenc.lab.table import described


def points(run: Run) -> Iterator[tuple[str, int, float]]:
    """Tag, step or length, and value; what is no finite number is left out."""
    for row in run.rows:
        if row["kind"] == "train" and is_number(row.get("loss")):
            yield "train/loss", row["step"], row["loss"]
    for number in described(run)["numbers"]:
        if is_number(number["value"]):
            kind, at = ("cost", 0) if number["length"] is None else ("test", number["length"])
            yield f"{kind}/{number['metric']}", at, number["value"]


def to_tensorboard(runs: Sequence[Run], out: Path) -> None:
    """A folder of event files for each run, below `out`; repeated, they take the place of before.

    Raises LabError where tensorboard is not installed.
    """
    writers = _needed("torch.utils.tensorboard", "tensorboard")
    for run in runs:
        with writers.SummaryWriter(str(out / run.path.name), purge_step=0) as writer:
            writer.add_text("config", json.dumps(run.config.to_json(), indent=2), 0)
            for tag, at, value in points(run):
                writer.add_scalar(tag, value, at)


def to_trackio(runs: Sequence[Run], project: str) -> None:
    """A run of `project` for each run; repeated, there is another of the same name.

    Raises LabError where trackio is not installed.
    """
    trackio = _needed("trackio", "trackio")
    for run in runs:
        trackio.init(project=project, name=run.path.name, config=run.config.to_json())
        for tag, at, value in points(run):
            trackio.log({tag: value}, step=at)
        trackio.finish()


def _needed(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise LabError(f"{package} is not installed ({error}): pip install {package}") from None
