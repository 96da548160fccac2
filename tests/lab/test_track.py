"""Rows of runs in a tracker: every number once, at its step or length."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from lab_runs import add_run
from typer.testing import CliRunner

from posenc.commands import app
from posenc.lab.folder import RESULTS, append_row
from posenc.lab.table import runs_in
from posenc.lab.track import points

run = CliRunner().invoke
LOSSES = (1.0, 1.1, 1.2, 1.3)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    add_run(tmp_path, "alibi", 0, LOSSES)
    add_run(tmp_path, "t5", 0, LOSSES, end="failed", error="it broke")
    return tmp_path


class Tracker(ModuleType):
    """Both trackers, as far as they are used: what they were given."""

    def __init__(self) -> None:
        super().__init__("tracker")
        self.runs: dict[str, list[tuple[str, int, float]]] = {}
        self.configs: list[Any] = []
        self.open = ""

    # torch.utils.tensorboard
    def SummaryWriter(self, folder: str, purge_step: int) -> "Tracker":  # noqa: N802
        # Without it a second export would show every number twice.
        assert purge_step == 0
        return self._begun(Path(folder).name)

    def __enter__(self) -> "Tracker":
        return self

    def __exit__(self, *reason: object) -> None:
        self.finish()

    def add_text(self, tag: str, text: str, step: int) -> None:
        self.configs.append(text)

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        self.runs[self.open].append((tag, step, value))

    # trackio
    def init(self, project: str, name: str, config: dict[str, Any]) -> None:
        assert project == "mine"
        self.configs.append(config)
        self._begun(name)

    def log(self, metrics: dict[str, float], step: int) -> None:
        self.runs[self.open] += [(tag, step, value) for tag, value in metrics.items()]

    def finish(self) -> None:
        self.open = ""

    def _begun(self, name: str) -> "Tracker":
        assert not self.open
        self.open, self.runs[name] = name, []
        return self


@pytest.mark.parametrize(
    ("to", "module", "option"),
    [
        ("tensorboard", "torch.utils.tensorboard", ()),
        ("trackio", "trackio", ("--project", "mine")),
    ],
)
def test_a_tracker_gets_every_number_of_every_run(
    out: Path, monkeypatch: pytest.MonkeyPatch, to: str, module: str, option: tuple[str, ...]
) -> None:
    tracker = Tracker()
    monkeypatch.setitem(sys.modules, module, tracker)
    told = run(app, ["lab", "track", str(out), "--to", to, *option])
    assert told.exit_code == 0, told.output
    assert told.stdout.startswith(to)
    assert not tracker.open
    assert len(tracker.configs) == 2
    assert {name.partition("-")[0] for name in tracker.runs} == {"alibi", "t5"}
    for one in runs_in(out):
        given = tracker.runs[one.path.name]
        trained = [(row["step"], row["loss"]) for row in one.rows if row["kind"] == "train"]
        assert trained
        assert [(at, value) for tag, at, value in given if tag == "train/loss"] == trained
        tested = {at: value for tag, at, value in given if tag == "test/targets"}
        failed = one.state == "failed"
        assert tested == ({} if failed else dict(zip((64, 128, 256, 512), LOSSES, strict=True)))


def test_a_run_that_goes_on_is_shown_as_far_as_it_is(out: Path) -> None:
    (folder,) = (out / "runs").glob("alibi-*")
    rows = (folder / RESULTS).read_text().splitlines()
    (folder / RESULTS).write_text("\n".join(rows[:1]) + "\n")
    append_row(folder / RESULTS, {"kind": "train", "step": 9, "loss": None, "seconds": 1.0})
    going = next(one for one in runs_in(out) if one.path == folder)
    assert going.state == "unfinished"
    (only,) = points(going)
    assert only[0] == "train/loss"


@pytest.mark.parametrize("to", ["tensorboard", "trackio"])
def test_without_the_tracker_it_says_what_to_install(
    out: Path, monkeypatch: pytest.MonkeyPatch, to: str
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    monkeypatch.setitem(sys.modules, "trackio", None)
    told = run(app, ["lab", "track", str(out), "--to", to])
    assert told.exit_code == 2
    assert f"{to} is not installed" in told.stderr
    assert f"pip install {to}" in told.stderr


def test_a_row_of_training_without_a_loss_is_left_out(tmp_path: Path) -> None:
    folder = add_run(tmp_path, "alibi", 0, LOSSES)
    (before,) = (list(points(one)) for one in runs_in(tmp_path))
    append_row(folder / RESULTS, {"kind": "train", "step": 5})
    (one,) = runs_in(tmp_path)
    assert list(points(one)) == before
