"""`posenc compare`: its options, what it prints, and how it ends."""

import dataclasses
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
from prose import english
from typer.testing import CliRunner

import posenc as pe
import posenc.lab.compare
import posenc.testing
import posenc.testing.suite
from posenc.commands import app
from posenc.lab.compare import Comparison
from posenc.lab.config import RunConfig

run = CliRunner().invoke


class TestCompare:
    @pytest.fixture
    def text(self, tmp_path: Path) -> Path:
        path = tmp_path / "some text"
        path.write_text("".join(f"line {i} is {i * i % 1000}\n" for i in range(1000)))
        return path

    def arguments(self, text: Path) -> list[str]:
        sizes = "--train-length 8 --test-lengths 16 --dim 8 --depth 1 --heads 2 --batch 4 --steps 5"
        chosen = ["--encodings", "none, alibi", "--seeds", "1", "--text", str(text)]
        return ["compare", *sizes.split(), *chosen, "--out", str(text.parent / "out")]

    def test_prints_losses_verdict_and_where_the_report_is(self, text: Path) -> None:
        ended = run(app, self.arguments(text))
        assert ended.exit_code == 0, ended.output
        assert "alibi" in ended.stdout
        assert f"report: {text.parent / 'out' / 'report.html'}" in ended.stdout.replace("\n", " ")
        assert "2 runs" in ended.stderr

    def test_chinese_is_spoken_in_the_terminal_and_on_the_page(self, text: Path) -> None:
        ended = run(app, [*self.arguments(text), "--language", "zh"])
        assert ended.exit_code == 0, ended.output
        out = text.parent / "out"
        assert "损失，长度" in ended.stdout
        assert f"报告：{out / 'report.html'}" in ended.stdout
        assert "2 次训练" in ended.stderr
        assert english(ended.stdout) == []
        assert "--language zh" in (out / "report.html").read_text("utf-8")
        assert "one seed" in json.loads((out / "report.json").read_text())["verdict"][0]

    def test_json_is_the_report_and_progress_goes_elsewhere(self, text: Path) -> None:
        ended = run(app, [*self.arguments(text), "--json"])
        report = json.loads(ended.stdout)
        assert report == json.loads((text.parent / "out" / "report.json").read_text())
        assert set(report["encodings"]) == {"none", "alibi"}

    def test_the_command_in_the_report_is_the_same_comparison(
        self, text: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[Comparison] = []

        def keep(comparison: Comparison, *_: object) -> Any:
            seen.append(comparison)
            raise pe.LabError("enough")

        monkeypatch.setattr(posenc.lab.compare, "compare", keep)
        for options in (
            [],
            ["--minutes", "2.5", "--jobs", "3"],
            ["--steps", "7", "--text", str(text)],
        ):
            assert run(app, ["compare", *options]).exit_code == 2
            assert run(app, shlex.split(seen[-1].command())[1:]).exit_code == 2
            first, second = seen[-2:]
            steps = None if first.minutes else first.steps or RunConfig.steps
            assert second == dataclasses.replace(first, steps=steps)

    def test_defaults_are_those_of_the_library(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[Comparison] = []
        monkeypatch.setattr(posenc.lab.compare, "compare", lambda one, *_: seen.append(one))
        run(app, ["compare"])
        assert seen == [Comparison()]
        command = typer.main.get_group(app).commands["compare"]
        steps = next(option for option in command.params if option.name == "steps")
        assert steps.show_default == str(RunConfig.steps)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--encodings", "rotery"], "rotary"),
            (["--encodings", ","], "at least one"),
            (["--test-lengths", "64,many"], "64,many"),
            (["--test-lengths", ""], "whole numbers between commas are needed"),
            (["--text", "no/such/file"], "no/such/file"),
            (["--train-length", "4"], "at least 8"),
            (["--minutes", "1", "--steps", "5"], "one budget, not two"),
            (["--encodings", "alibi(heads=2)"], "alibi(heads=2): heads is that of the model, 2"),
        ],
    )
    def test_what_cannot_work_ends_with_2_and_a_message(
        self, text: Path, options: list[str], message: str
    ) -> None:
        ended = run(app, [*self.arguments(text), *options])
        assert ended.exit_code == 2
        assert message in ended.stderr
        assert "Traceback" not in ended.stderr
        assert not (text.parent / "out").exists()

    @pytest.mark.parametrize(
        ("interrupted", "failed", "code"), [(True, [], 130), (False, ["run"], 1), (False, [], 0)]
    )
    def test_the_exit_code_tells_how_it_ended(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        interrupted: bool,
        failed: list[str],
        code: int,
    ) -> None:
        class Ended:
            report, data = tmp_path / "report.html", {}

        Ended.interrupted, Ended.failed = interrupted, failed
        monkeypatch.setattr(posenc.lab.compare, "compare", lambda *_: Ended)
        assert run(app, ["compare", "--json"]).exit_code == code
