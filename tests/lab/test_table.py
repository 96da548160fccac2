"""Runs as one table."""

import csv
import io
import json
from pathlib import Path

import pytest
from lab_runs import add_run
from typer.testing import CliRunner

from posenc.commands import app
from posenc.errors import LabError
from posenc.lab.folder import RESULTS, append_row
from posenc.lab.table import rows, runs_in, written

run = CliRunner().invoke


@pytest.fixture
def out(tmp_path: Path) -> Path:
    for seed, losses in enumerate(((1.0, 2.0, 3.0, 4.0), (1.2, 2.2, 3.2, 4.2))):
        add_run(tmp_path, "alibi", seed, losses)
    add_run(tmp_path, "t5", 0, (1.5, None, None, None), reason="too long")
    add_run(tmp_path, "none", 0, (), end="failed", error="it broke")
    return tmp_path


def test_every_number_has_a_row(out: Path) -> None:
    found = list(csv.DictReader(io.StringIO(written(rows(runs_in(out)), "csv"))))
    alibi = {
        (row["seed"], row["length"]): float(row["value"])
        for row in found
        if row["encoding"] == "alibi" and row["metric"] == "targets"
    }
    assert alibi["0", "64"] == 1.0
    assert alibi["1", "512"] == 4.2
    assert len(alibi) == 8
    assert {row["metric"] for row in found} >= {"targets", "windows", "parameters"}


def test_a_failed_run_is_not_left_out(out: Path) -> None:
    (failed,) = [row for row in rows(runs_in(out)) if row["encoding"] == "none"]
    assert (failed["state"], failed["value"]) == ("failed", None)


def test_settings_stand_where_runs_differ(out: Path) -> None:
    assert "steps" not in rows(runs_in(out))[0]
    add_run(out, "alibi", 5, (1.0, 2.0, 3.0, 4.0), steps=100)
    assert {row["steps"] for row in rows(runs_in(out))} == {100, 800}


def test_shares_are_of_examples(out: Path) -> None:
    folder = next((out / "runs").glob("alibi-s0-*"))
    row = {"kind": "accuracy", "length": 9, "exact": 3, "examples": 4, "token": 0.9}
    append_row(folder / RESULTS, row | {"loss": 0.5, "chance": 0.1})
    found = [r for r in rows(runs_in(out)) if r["length"] == 9]
    assert {r["metric"]: r["value"] for r in found} == {
        "exact": 0.75,
        "token": 0.9,
        "loss": 0.5,
        "chance": 0.1,
    }


def test_latex_has_means_over_seeds(out: Path) -> None:
    text = written(rows(runs_in(out)), "latex")
    assert r" & 64 & 128 & 256 & 512 \\ \hline" in text
    assert r"alibi & 1.100 $\pm$ 0.141" in text
    assert r"t5 & 1.500 & -- & -- & -- \\" in text


def test_runs_of_other_settings_are_not_averaged(out: Path) -> None:
    add_run(out, "alibi", 0, (9.0, 9.0, 9.0, 9.0), steps=100)
    text = written(rows(runs_in(out)), "latex")
    assert r"alibi, steps=800 & 1.100 $\pm$ 0.141" in text
    assert "alibi, steps=100 & 9.000" in text
    assert "\nt5 & 1.500" in text


def test_the_commands_print_them(out: Path, tmp_path: Path) -> None:
    assert run(app, ["lab", "table", str(out)]).stdout.startswith("run,state,encoding,task,seed,")
    file = tmp_path / "runs.tex"
    assert run(app, ["lab", "table", str(out), "--form", "latex", "--to", str(file)]).exit_code == 0
    assert file.read_text().startswith("% ")
    folder = next((out / "runs").glob("none-*"))
    shown = run(app, ["lab", "show", str(folder)])
    assert "failed" in shown.stdout
    assert "it broke" in shown.stdout
    told = json.loads(run(app, ["lab", "show", str(folder), "--json"]).stdout)
    assert told["config"]["encoding"] == "none"


def test_what_is_not_there_is_told(out: Path, tmp_path: Path) -> None:
    with pytest.raises(LabError, match="holds no runs"):
        runs_in(tmp_path / "nowhere")
    wrong = run(app, ["lab", "show", str(out / "runs" / "alibi-s9")])
    assert wrong.exit_code == 2
    assert "alibi-s0-" in wrong.stderr
    assert run(app, ["lab", "table", str(out), "--form", "parquet"]).exit_code == 2
