"""`posenc lab run` and `lab map`: any task at several train lengths, as numbers and colours."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from posenc.api import Transformer
from posenc.commands import app
from posenc.errors import LabError
from posenc.lab.arms import of_runs
from posenc.lab.config import RunConfig
from posenc.lab.heat_map import heat_map
from posenc.lab.model import settings_of
from posenc.lab.rates import RATE_SEED
from posenc.lab.sizes import SIZES as NAMED
from posenc.lab.sizes import size_of
from posenc.lab.table import runs_in

SIZES = ["--dim", "8", "--depth", "1", "--heads", "2", "--batch", "8"]
BUDGET = ["--steps", "12", "--spans", "16", "--seeds", "2"]
ASKED = [
    "--task", "copy(letters=2)", "--encodings", "none,alibi", "--train-lengths", "1,2",
    "--test-lengths", "1,2,4", "--rates", "0.01,0.001", *SIZES, *BUDGET,
]  # fmt: skip


def run(out: Path, *more: str) -> Any:
    return CliRunner().invoke(app, ["lab", "run", *ASKED, "--out", str(out), *more])


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    out = tmp_path_factory.mktemp("sweep")
    ended = run(out)
    assert ended.exit_code == 0, ended.output
    return out, ended.stdout


def test_each_encoding_is_run_at_each_length_with_each_seed(ran: tuple[Path, str]) -> None:
    runs = runs_in(ran[0])
    kept = [one for one in runs if one.config.seed != RATE_SEED]
    settings = {(r.config.encoding, r.config.train_length, r.config.seed) for r in kept}
    assert len(settings) == len(kept) == 8
    assert {one.state for one in runs} == {"done"}
    # Two rates are tried for each, and the better one is taken.
    assert len(runs) == 16
    for one in kept:
        rates = {
            r.config.learning_rate: next(x["loss"] for x in r.rows if x["kind"] == "accuracy")
            for r in runs
            if r.config.seed == RATE_SEED
            and (r.config.encoding, r.config.train_length)
            == (one.config.encoding, one.config.train_length)
        }
        assert one.config.learning_rate == min(rates, key=rates.__getitem__)
        assert one.config.test_lengths == (1, 2, 4)


def test_the_table_has_the_means_of_the_rows(ran: tuple[Path, str]) -> None:
    out, text = ran
    ended = run(out, "--json")
    assert ended.exit_code == 0
    told = json.loads(ended.stdout)
    assert [(one["config"]["encoding"], one["config"]["train_length"]) for one in told] == [
        ("none", 1), ("none", 2), ("alibi", 1), ("alibi", 2),
    ]  # fmt: skip
    for one in told:
        by_seed = one["numbers"]["exact"]["4"]
        assert sorted(by_seed) == ["0", "1"]
        assert f"{sum(by_seed.values()) / 2:.3f}" in text
    assert "trained on" in text


def test_what_is_done_is_not_done_again(ran: tuple[Path, str]) -> None:
    before = {path: path.stat().st_mtime_ns for path in ran[0].glob("runs/*/results.jsonl")}
    assert run(ran[0]).stdout == ran[1]
    assert {path: path.stat().st_mtime_ns for path in ran[0].glob("runs/*/results.jsonl")} == before


@pytest.mark.parametrize(
    ("twice", "runs"),
    [
        (["--encodings", "none, none, nope( )"], 1),
        (["--train-lengths", "1,1"], 2),
        (["--rates", "0.01,0.01"], 2),
        (["--rates", "0.01,1e-2,0.001"], 6),
    ],
)
def test_what_is_named_twice_is_run_once(tmp_path: Path, twice: list[str], runs: int) -> None:
    ended = run(tmp_path, "--train-lengths", "1", "--rates", "0.01", "--seeds", "1", *twice)
    assert ended.exit_code == 0, ended.output
    assert len(runs_in(tmp_path)) == runs
    assert ended.stderr.count(": done") == runs
    assert {arm.runs for arm in of_runs(runs_in(tmp_path))} == {1}


def test_the_map_has_the_means_of_the_rows(ran: tuple[Path, str], tmp_path: Path) -> None:
    arms = of_runs(runs_in(ran[0]))
    assert len(arms) == 4
    panels = [axes for axes in heat_map(arms, "loss").axes if axes.get_title(loc="left")]
    assert [axes.get_title(loc="left") for axes in panels] == ["alibi", "none"]
    for axes in panels:
        shown = axes.images[0].get_array().filled(np.nan)
        own = [arm for arm in arms if arm.encoding == axes.get_title(loc="left")]
        for row, arm in enumerate(sorted(own, key=lambda arm: arm.train)):
            for column, length in enumerate((1, 2, 4)):
                values = arm.values("loss", length).by_seed.values()
                if arm.learned or length == arm.train:
                    assert shown[row, column] == pytest.approx(sum(values) / 2)
                else:
                    assert np.isnan(shown[row, column])
    picture = tmp_path / "map.png"
    ended = CliRunner().invoke(app, ["lab", "map", str(ran[0]), "--to", str(picture)])
    assert ended.exit_code == 0, ended.output
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("seed", "lengths", "kept"),
    [
        (RATE_SEED, (1,), False),
        (RATE_SEED, (1, 2, 4), True),
        (RATE_SEED + 1, (1,), True),
        (5000, (1, 2, 4), True),
    ],
)
def test_only_what_looks_for_a_rate_is_no_arm(
    ran: tuple[Path, str], seed: int, lengths: tuple[int, ...], kept: bool
) -> None:
    one = next(one for one in runs_in(ran[0]) if one.config.train_length == 1)
    config = replace(one.config, seed=seed, test_lengths=lengths)
    arms = of_runs([replace(one, config=config)])
    assert [[*arm.rows] for arm in arms] == ([[seed]] if kept else [])


def test_a_map_of_two_tasks_asks_which(ran: tuple[Path, str]) -> None:
    arms = of_runs(runs_in(ran[0]))
    other = [type(arm)(arm.config | {"task": "reverse"}, arm.rows, 2, 0) for arm in arms]
    with pytest.raises(LabError, match="--task"):
        heat_map([*arms, *other])
    with pytest.raises(LabError, match="no run of these has windows"):
        heat_map(arms, "windows")


def test_a_run_that_failed_is_counted_and_blank(ran: tuple[Path, str]) -> None:
    runs = [one for one in runs_in(ran[0]) if one.config.seed != RATE_SEED]
    broken = replace(runs[0], state="failed")
    (first, *_) = of_runs([broken, *runs[1:]])
    assert first.failed == 1
    assert first.interval("exact", 1) is None
    with pytest.raises(LabError, match="every run of these failed"):
        heat_map([first], "loss")


def test_a_map_of_one_number_has_a_scale(ran: tuple[Path, str]) -> None:
    (arm, *_) = of_runs(runs_in(ran[0]))
    same = {seed: tuple({**row, "loss": 2.0} for row in rows) for seed, rows in arm.rows.items()}
    figure = heat_map([replace(arm, rows=same)], "loss")
    (image,) = figure.axes[0].images
    assert image.get_clim() == (2.0, 3.0)
    (bar,) = figure.axes[0].child_axes
    assert bar.get_ylim() == (2.0, 3.0)


def test_a_loss_that_is_no_number_is_null(ran: tuple[Path, str]) -> None:
    (arm, *_) = of_runs(runs_in(ran[0]))
    lost = {seed: tuple({**row, "loss": None} for row in rows) for seed, rows in arm.rows.items()}
    told = replace(arm, rows=lost).told()
    assert {*told["numbers"]["loss"]["1"].values()} == {None}
    assert "Infinity" not in json.dumps(told)


def test_a_seed_that_could_not_be_tested_is_not_left_out(ran: tuple[Path, str]) -> None:
    (arm, *_) = of_runs(runs_in(ran[0]))
    gone = {"kind": "missing", "length": 4, "reason": "RuntimeError: out of memory"}
    lacking = {1: tuple(gone if row.get("length") == 4 else row for row in arm.rows[1])}
    short = replace(arm, rows=arm.rows | lacking)
    assert arm.interval("exact", 4) is not None
    assert short.interval("exact", 4) is None
    assert short.told()["numbers"]["exact"]["4"].keys() == {"0", "1"}
    assert short.told()["numbers"]["exact"]["4"]["1"] is None
    assert short.values("exact", 2) == arm.values("exact", 2)
    none = replace(arm, rows={1: lacking[1]})
    assert 4 not in none.lengths("exact")


def test_a_text_that_is_too_short_is_refused_before_any_run(tmp_path: Path) -> None:
    text = tmp_path / "short.txt"
    text.write_text("a few words\n")
    asked = ["--task", "text", "--train-lengths", "64", "--test-lengths", "64"]
    ended = run(tmp_path / "out", *asked, "--text", str(text))
    assert ended.exit_code == 2
    assert "the text is too short" in ended.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("task", ["text", "masked_text", "tokens", "passkey"])
def test_texts_are_not_read_at_random_positions(tmp_path: Path, task: str) -> None:
    asked = ["--task", task, "--train-lengths", "64", "--test-lengths", "64"]
    ended = run(tmp_path / "out", *asked, "--positions", "random(longest=128)")
    assert ended.exit_code == 2
    assert "stay random in tests, and tests of texts count them" in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.glob("out/runs/*"))


def test_texts_are_read_at_positions_that_skip() -> None:
    # They are for training alone: tests may be longer.
    config = RunConfig("alibi", train_length=64, positions="skipping(longest=128)")
    assert max(config.test_lengths) > 128
    assert settings_of(config) == settings_of(replace(config, positions=""))


@pytest.mark.parametrize("name", NAMED)
def test_a_size_has_as_many_parameters_as_it_is_called(name: str) -> None:
    size = size_of(name)
    with torch.device("meta"):
        model = Transformer(vocab_size=256, **size._asdict(), encoding=None, max_length=8)
    said = float(name[:-1]) * {"k": 1e3, "m": 1e6}[name[-1]]
    assert sum(x.numel() for x in model.parameters()) == pytest.approx(said, rel=0.12)
    assert size.dim % size.heads == 0


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--task", "cpy"], "did you mean 'copy'"),
        (["--encodings", "rotery"], "did you mean 'rotary'"),
        (["--encodings", "none,rotary + xpos"], "2 rotations in one call"),
        (["--task", "maximum(priorities=1)"], "priorities must be a whole number (int), 2"),
        (
            ["--task", "text(train_bytes=9)", "--train-lengths", "9", "--test-lengths", "9"],
            "its training part has 9 bytes, and at least 10 are needed",
        ),
        (
            ["--task", "text", "--train-lengths", "8", "--test-lengths", "8", "--solved", "0.9"],
            "training on task text has no share of right answers; leave --solved away",
        ),
        (["--train-lengths", "a"], "lab run --train-lengths a: numbers between commas"),
        (["--positions", "random(longest=7)"], "of length 4 has 8 tokens: Positions.random"),
        (["--positions", "random(longest=99, far=1)"], "unexpected keyword argument 'far'"),
        (["--positions", "skipping(longest=99, chunks=40)"], "1 <= chunks <= tokens <= longest"),
        (["--train-lengths", ""], "lab run --train-lengths : numbers between commas"),
        (["--train-lengths", "0"], "train_length is 0: it must be at least 1"),
        (["--encodings", "none("], "'none(' cannot be read"),
        (["--encodings", "none)("], "no encoding is called 'none)'"),
        (["--encodings", ""], "give at least one of each"),
        (["--encodings", "alibi(heads=2)"], "alibi(heads=2): heads is that of the model, "),
        (["--encodings", "rotary(head_dim=2)"], "rotary(head_dim=2): head_dim is that of the m"),
        (["--seeds", "0"], "0 seeds: give at least one of each"),
        (["--seeds", "1001"], "seeds is 1001: it must be at least 1 and at most 1000"),
        (["--steps", "-1"], "steps is -1: it must be at least 1"),
        (["--rates", "fast"], "lab run --rates fast: numbers between commas"),
        (["--rates", ""], "lab run --rates : numbers between commas"),
        (["--size", "2m"], "no size is called '2m'"),
        (["--jobs", "-1"], "jobs is -1: it must be at least 1"),
        (["--jobs", "0"], "jobs is 0: it must be at least 1"),
        (["--device", "tpu"], "device 'tpu' is not to be had"),
        (["--text", "notes"], "lab run --text notes: task copy(letters=2) makes its examples"),
    ],
)
def test_wrong_input_is_answered_in_one_line(tmp_path: Path, more: list[str], message: str) -> None:
    ended = run(tmp_path, *more)
    assert ended.exit_code == 2
    assert message in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1


def test_runs_that_failed_are_told_by_the_exit_code(tmp_path: Path) -> None:
    asked = ["lab", "run", "--task", "copy", "--encodings", "none", "--steps", "1", "--json"]
    # For which there is no memory.
    asked += ["--train-lengths", "9" * 12, "--test-lengths", "4", "--seeds", "1", "--jobs", "1"]
    ended = CliRunner().invoke(app, [*asked, "--out", str(tmp_path / "runs")])
    assert ended.exit_code == 1
    assert "failed" in ended.stderr
    (arm,) = json.loads(ended.stdout)
    assert (arm["failed"], arm["learned"], arm["numbers"]) == (1, False, {})
