"""What is made of the runs of `posenc lab run`: arms, and the table that it prints."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from posenc.commands import app
from posenc.lab.arms import of_runs
from posenc.lab.folder import RESULTS, read_rows
from posenc.lab.table import runs_in

ASKED = [
    "--task", "copy(letters=2)", "--encodings", "none,alibi", "--train-lengths", "1,2",
    "--test-lengths", "1,2,4", "--rates", "0.01", "--dim", "8", "--depth", "1", "--heads", "2",
    "--batch", "8", "--steps", "12", "--spans", "16", "--seeds", "2",
]  # fmt: skip


def run(out: Path, *more: str) -> Any:
    return CliRunner().invoke(app, ["lab", "run", *ASKED, "--out", str(out), *more])


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sweep")
    ended = run(out)
    assert ended.exit_code == 0, ended.output
    return out


def test_runs_that_began_with_others_are_arms_of_their_own(ran: Path) -> None:
    """And are no more than one where what they began with differs in its seed alone."""
    runs = runs_in(ran)
    tuned = [
        replace(
            one,
            path=one.path.with_name(f"tuned-{one.path.name}"),
            config=replace(one.config, encoding="rotary", train_length=1, base=one.path.name),
        )
        for one in runs
    ]
    arms = of_runs([*tuned, *runs])
    assert len(arms) == 8
    assert [arm.runs for arm in arms] == [2] * 8
    assert {arm.config.get("base", "").partition("-s")[0] for arm in arms} == {"", "none", "alibi"}


@pytest.mark.parametrize(("language", "said"), [("en", "not tested"), ("zh", "没有测成")])
def test_a_length_that_a_seed_was_not_tested_at_is_told_so(
    ran: Path, tmp_path: Path, language: str, said: str
) -> None:
    shutil.copytree(ran, tmp_path, dirs_exist_ok=True)
    (folder,) = (
        one.path
        for one in runs_in(tmp_path)
        if (one.config.encoding, one.config.train_length, one.config.seed) == ("none", 2, 1)
    )
    rows, _ = read_rows(folder / RESULTS)
    gone = {"kind": "missing", "length": 4, "reason": "RuntimeError: out of memory"}
    rows = [gone if row.get("length") == 4 else row for row in rows]
    (folder / RESULTS).write_text("".join(json.dumps(row) + "\n" for row in rows))
    ended = run(tmp_path, "--language", language)
    assert said in ended.stdout
    assert "diverged" not in ended.stdout


def test_no_digit_of_a_table_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ["--test-lengths", "1,2,3,4,5,6,7,8,9", "--train-lengths", "1"]
    monkeypatch.delenv("COLUMNS", raising=False)
    wide = run(tmp_path, *asked).stdout
    arms = json.loads(run(tmp_path, *asked, "--json").stdout)
    for arm in arms:
        (line,) = (one for one in wide.splitlines() if f" {arm['config']['encoding']} " in one)
        for by_seed in arm["numbers"]["exact"].values():
            assert f" {sum(by_seed.values()) / 2:.3f} " in line
    monkeypatch.setenv("COLUMNS", "70")
    narrow = run(tmp_path, *asked).stdout
    assert max(map(len, narrow.splitlines()[:4])) <= 70
    assert "\N{HORIZONTAL ELLIPSIS}" not in narrow
