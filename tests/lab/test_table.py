"""Runs as one table."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from lab_runs import add_run
from typer.testing import CliRunner

from posenc.commands import app
from posenc.errors import LabError
from posenc.lab.config import RunConfig
from posenc.lab.folder import RESULTS, append_row
from posenc.lab.rates import RATE_SEED
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


@pytest.mark.parametrize("loss", ["NaN", "inf", None])
def test_a_loss_that_is_no_number_is_empty(out: Path, loss: str | None) -> None:
    folder = add_run(out, "rotary", 0, (1.0, 2.0, 3.0, 4.0))
    append_row(
        folder / RESULTS, {"kind": "loss", "protocol": "targets", "length": 99, "loss": loss}
    )
    (row,) = [row for row in rows(runs_in(out)) if row["length"] == 99]
    assert row["value"] is None
    shown = run(app, ["lab", "show", str(folder)])
    assert shown.exit_code == 0, shown.output


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
    assert r"none & -- & -- & -- & -- \\ % 1 of 1 runs failed" in text


def test_runs_of_other_settings_are_not_averaged(out: Path) -> None:
    add_run(out, "alibi", 0, (9.0, 9.0, 9.0, 9.0), steps=100)
    text = written(rows(runs_in(out)), "latex")
    assert r"alibi, steps=800 & 1.100 $\pm$ 0.141" in text
    assert "alibi, steps=100 & 9.000" in text
    assert "\nt5 & 1.500" in text


@pytest.mark.parametrize(
    "changed",
    [
        {"corpus": "ab" * 32},
        {"version": 2},
        {"settings": "alibi(slope=2)"},
        {"test_lengths": (64, 128, 256, 513)},
        {"base": "rotary-s0-0123456789ab"},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_what_else_runs_depend_on_keeps_them_apart(out: Path, changed: dict[str, Any]) -> None:
    add_run(out, "alibi", 0, (9.0, 9.0, 9.0, 9.0), changed=changed)
    found = rows(runs_in(out))
    (key,) = changed
    told = {row[key] for row in found if row["encoding"] == "alibi"}
    assert len(told) == 2
    lines = [line for line in written(found, "latex").splitlines() if line.startswith("alibi, ")]
    (own, other) = sorted(lines, key=lambda line: "9.000" in line)
    assert r"& 1.100 $\pm$ 0.141" in own
    assert "& 9.000 & 9.000 &" in other


def test_seeds_that_began_with_seeds_of_one_arm_are_averaged(out: Path) -> None:
    for seed in range(2):
        # By the name of the folder of a run of the base's arm, which is another for each seed.
        (base,) = (out / "runs").glob(f"alibi-s{seed}-*")
        add_run(out, "window", seed, (1.0 + seed,) * 4, changed={"base": base.name})
        add_run(out, "window", seed, (5.0 + seed,) * 4, changed={"base": f"t5-s{seed}-{'0' * 12}"})
    text = written(rows(runs_in(out)), "latex")
    (base,) = (out / "runs").glob("alibi-s0-*")
    assert rf"window, base={base.name} & 1.500 $\pm$ 0.707" in text
    assert r"window, base=t5 & 5.500 $\pm$ 0.707" in text


def test_runs_that_look_for_a_rate_are_no_seeds(out: Path) -> None:
    search = {"seed": RATE_SEED, "test_lengths": (64,)}
    for rate in (RunConfig.learning_rate, 0.5):
        add_run(out, "alibi", 0, (7.0,), changed=search | {"learning_rate": rate})
    found = rows(runs_in(out))
    assert {row["seed"] for row in found if row["search"]} == {RATE_SEED}
    text = written(found, "latex")
    assert r"alibi & 1.100 $\pm$ 0.141" in text
    assert "7.0" not in text
    assert "0.5" not in [line.partition("&")[0] for line in text.splitlines()]
    with pytest.raises(LabError, match="nothing to tabulate"):
        written([row for row in found if row["search"]], "latex")


def test_survivors_have_no_mean(out: Path) -> None:
    add_run(out, "alibi", 2, (), end="failed", error="it broke")
    add_run(out, "rotary", 0, (1.0, 2.0, 3.0, 4.0))
    diverged = add_run(out, "rotary", 1, (1.0, 2.0, 3.0, 4.0)) / RESULTS
    lost = {"kind": "loss", "protocol": "targets", "length": 512, "loss": None}
    append_row(diverged, lost)
    append_row(diverged, {"kind": "done", "seconds": 1.0})
    text = written(rows(runs_in(out)), "latex")
    assert r"alibi & -- & -- & -- & -- \\ % 1 of 3 runs failed" in text
    (line,) = [line for line in text.splitlines() if line.startswith("rotary")]
    assert line.endswith(r"3.000 $\pm$ 0.000 & -- \\ % 1 of 2 runs diverged")


def test_a_run_that_goes_on_is_no_seed_yet(out: Path) -> None:
    add_run(out, "alibi", 2, (), end="unfinished")
    assert r"alibi & 1.100 $\pm$ 0.141" in written(rows(runs_in(out)), "latex")


def test_texts_and_made_tasks_have_a_table_each(out: Path) -> None:
    made = add_run(out, "alibi", 0, (0.1,) * 4, changed={"task": "copy(letters=2)"}) / RESULTS
    row = {"kind": "accuracy", "length": 9, "exact": 3, "examples": 4, "token": 0.9}
    lines = [json.loads(line) for line in made.read_text().splitlines()]
    kept = [line for line in lines if line["kind"] in ("train", "cost")]
    made.write_text("".join(json.dumps(line) + "\n" for line in kept))
    append_row(made, row | {"loss": 0.5, "chance": 0.1})
    append_row(made, {"kind": "done", "seconds": 1.0})
    add_run(out, "t5", 0, (), end="failed", error="it broke", changed={"task": "reverse"})
    text = written(rows(runs_in(out)), "latex")
    assert "% text: targets, mean" in text
    assert r"alibi & 1.100 $\pm$ 0.141" in text
    _, of_made = text.split("% copy(letters=2): exact, mean")
    assert "alibi & 0.750 \\\\" in of_made
    assert "% reverse: no run has a number at a length" in text


def test_signs_of_latex_are_escaped(out: Path) -> None:
    add_run(out, "my_own:A&B", 0, (1.0, 2.0, 3.0, 4.0))
    assert r"my\_own:A\&B & 1.000" in written(rows(runs_in(out)), "latex")


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


def test_a_trained_model_has_its_own_sizes(tmp_path: Path) -> None:
    """Not those that a configuration begins with."""
    folder = add_run(tmp_path, "rotary", 0, (1.0, 2.0, 3.0, 4.0), changed={"model": "smollm2"})
    for path, has in ((add_run(tmp_path, "alibi", 0, (1.0, 2.0, 3.0, 4.0)), True), (folder, False)):
        config = json.loads(run(app, ["lab", "show", str(path), "--json"]).stdout)["config"]
        assert [name in config for name in ("dim", "depth", "heads")] == [has] * 3
        assert config["train_length"] == 64


def test_a_cost_that_is_no_number_is_told_apart(out: Path) -> None:
    path = next((out / "runs").iterdir()) / RESULTS
    path.write_text(
        path.read_text() + json.dumps({"kind": "cost", "seconds": 1, "steps": "many"}) + "\n"
    )
    ended = CliRunner().invoke(app, ["lab", "show", str(path.parent)])
    assert ended.exit_code == 0, ended.output
    assert "many" not in ended.stdout


def test_what_is_not_there_is_told(out: Path, tmp_path: Path) -> None:
    with pytest.raises(LabError, match="holds no runs"):
        runs_in(tmp_path / "nowhere")
    wrong = run(app, ["lab", "show", str(out / "runs" / "alibi-s9")])
    assert wrong.exit_code == 2
    assert "alibi-s0-" in wrong.stderr
    whole = run(app, ["lab", "show", str(out)])
    assert whole.exit_code == 2
    assert "alibi-s0-" in whole.stderr
    assert "did you mean" not in whole.stderr
    torn = tmp_path / "runs" / "alibi-s0-torn"
    torn.mkdir(parents=True)
    (torn / "manifest.json").write_text("{")
    shown = run(app, ["lab", "show", str(torn)])
    assert shown.exit_code == 2
    assert f"posenc: {torn} is no run that can be read" in shown.stderr
    assert run(app, ["lab", "table", str(out), "--form", "parquet"]).exit_code == 2
