"""The command line: what each command prints, and how it ends."""

import dataclasses
import inspect
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from typer.testing import CliRunner

import posenc as pe
import posenc.lab.compare
import posenc.testing
import posenc.testing.suite
from posenc.commands import app
from posenc.lab.compare import Comparison
from posenc.lab.config import RunConfig
from posenc.testing import Case, Peer, Result

run = CliRunner().invoke


def python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)


class TestMain:
    def test_help_does_not_wait_for_torch(self) -> None:
        ended = python(
            "import sys; sys.argv = ['posenc', '--help']\n"
            "from posenc.cli import main\n"
            "try: main()\n"
            "except SystemExit: pass\n"
            "print('torch' in sys.modules, 'matplotlib' in sys.modules)"
        )
        assert ended.stdout.endswith("False False\n")
        assert all(name in ended.stdout for name in ("list", "show", "check", "compare"))

    @pytest.mark.parametrize("missing", ["typer", "rich"])
    def test_without_its_extra_it_says_what_to_install(self, missing: str) -> None:
        ended = python(
            f"import sys; sys.modules[{missing!r}] = None\nfrom posenc.cli import main; main()"
        )
        assert ended.returncode == 1
        assert 'pip install "posenc[cli]"' in ended.stderr
        assert "Traceback" not in ended.stderr

    def test_compare_without_its_extra_says_what_to_install(self) -> None:
        ended = python(
            "import sys; sys.modules['safetensors'] = None; sys.argv = ['posenc', 'compare']\n"
            "from posenc.cli import main; main()"
        )
        assert ended.returncode == 1
        assert 'pip install "posenc[lab]"' in ended.stderr

    def test_classes_are_found_from_the_working_folder(self, tmp_path: Path) -> None:
        (tmp_path / "mine.py").write_text(
            "import posenc as pe\nclass Mine(pe.NoPE):\n    'My own.'\n"
        )
        program = "import sys; sys.path.pop(0); from posenc.cli import main; main()"
        ended = subprocess.run(
            [sys.executable, "-c", program, "show", "mine:Mine"],
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
        assert "My own." in ended.stdout, ended.stderr


class TestList:
    def test_names_every_encoding(self) -> None:
        shown = run(app, ["list"]).stdout
        for name, cls in pe.encodings().items():
            assert name in shown
            assert cls.__name__ in shown
            assert (inspect.getdoc(cls) or "").splitlines()[0] in shown

    def test_json_tells_the_same_to_programs(self) -> None:
        rows = {row["name"]: row for row in json.loads(run(app, ["list", "--json"]).stdout)}
        assert rows.keys() == pe.encodings().keys()
        assert rows["rotary"]["relative"] is True
        assert rows["learned"]["relative"] is False
        assert rows["alibi"]["paper"] == "arXiv:2108.12409"


class TestShow:
    @pytest.mark.parametrize("name", ["t5", "T5Bias", "posenc.encodings.t5:T5Bias"])
    def test_tells_formula_settings_tags_and_examples(self, name: str) -> None:
        shown = run(app, ["show", name]).stdout
        assert "T5Bias(heads: int, buckets: int = 32" in shown
        assert "Source: Raffel" in shown
        assert "translation_invariant" in shown
        for example in pe.T5Bias.examples():
            assert repr(example) in shown

    def test_an_unknown_name_is_answered_with_the_nearest(self) -> None:
        ended = run(app, ["show", "rotery"])
        assert ended.exit_code == 2
        assert "did you mean 'rotary'" in ended.stderr
        assert ended.stdout == ""


class TestCheck:
    @pytest.fixture(autouse=True)
    def few_checks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        checks = posenc.testing.suite.all_checks()
        few = {name: checks[name] for name in list(checks)[:2]}
        monkeypatch.setattr(posenc.testing.suite, "all_checks", lambda: few)

    def fail(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def results(encoding: pe.Encoding) -> list[Result]:
            shown = repr(encoding)
            return [
                Result(shown, "check_good", "It is good.", "passed"),
                Result(shown, "check_better", "It is better.", "failed", "by [0.5] it is not"),
            ]

        monkeypatch.setattr(posenc.testing, "run_checks", results)

    def test_a_good_encoding_ends_with_0(self) -> None:
        ended = run(app, ["check", "none", "alibi"])
        assert ended.exit_code == 0
        assert "NoPE()" in ended.stdout
        assert "ALiBi(heads=12" in ended.stdout

    def test_a_failed_claim_is_told_and_ends_with_1(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fail(monkeypatch)
        ended = run(app, ["check", "none"])
        assert ended.exit_code == 1
        assert "NoPE() fails check_better:\n    by [0.5] it is not" in ended.stdout

    def test_json_has_every_result(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fail(monkeypatch)
        ended = run(app, ["check", "none", "--json"])
        assert ended.exit_code == 1
        assert [row["status"] for row in json.loads(ended.stdout)] == ["passed", "failed"]

    def test_all_are_checked(self) -> None:
        rows = json.loads(run(app, ["check", "--all", "--json"]).stdout)
        expected = {repr(example) for cls in pe.encodings().values() for example in cls.examples()}
        assert {row["encoding"] for row in rows} == expected

    def test_a_class_of_ones_own_is_checked(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "posenc_mine.py").write_text(
            'import posenc as pe\nclass Mine(pe.NoPE):\n    "My own.\\n\\nSource: me."\n'
        )
        monkeypatch.syspath_prepend(tmp_path)
        ended = run(app, ["check", "posenc_mine:Mine"])
        assert ended.exit_code == 0
        assert "Mine()" in ended.stdout

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [([], "--all"), (["rotery"], "rotary"), (["json:loads"], "json:loads")],
    )
    def test_nothing_to_check_ends_with_2(self, arguments: list[str], message: str) -> None:
        ended = run(app, ["check", *arguments])
        assert ended.exit_code == 2
        assert message in ended.stderr

    def peers(self, monkeypatch: pytest.MonkeyPatch, error: float) -> None:
        """One peer of NoPE that is off by `error`, in place of those declared."""
        x = torch.ones(3)

        def cases() -> Iterator[Case]:
            yield Case("a case", lambda x: 2 * x, lambda x: 2 * x + error, [x])

        found = [Peer("none", "torch", "doubling", cases), Peer("none", "no-such", "more", cases)]
        monkeypatch.setattr(posenc.testing, "all_peers", lambda names, package: found)

    def test_peers_are_compared_and_reported(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.peers(monkeypatch, 0.0)
        path = tmp_path / "report.json"
        ended = run(app, ["check", "none", "--paper", "--out", str(path)])
        assert ended.exit_code == 0, ended.stdout
        report = json.loads(path.read_text())
        assert report["versions"]["torch"]
        assert report["checks"]["NoPE()"]["passed"] == 2
        assert [row["status"] for row in report["peers"]] == ["agrees", "not installed"]
        assert report["peers"][0]["gradient"] == 0.0
        assert "pip install no-such" in report["peers"][1]["detail"]
        as_json = run(app, ["check", "none", "--paper", "--out", str(path), "--json"])
        assert json.loads(as_json.stdout) == report

    @pytest.mark.parametrize("error", [1e-3, float("nan")])
    def test_a_peer_that_disagrees_ends_with_1(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: float
    ) -> None:
        self.peers(monkeypatch, error)
        path = tmp_path / "report.json"
        ended = run(app, ["check", "none", "--paper", "--out", str(path)])
        assert ended.exit_code == 1
        assert "none disagrees with torch" in ended.stdout
        assert "a case" in ended.stdout
        assert json.loads(path.read_text())["peers"][0]["status"] == "disagrees"

    def test_a_report_that_cannot_be_written_is_refused_at_once(self, tmp_path: Path) -> None:
        for out in (tmp_path, tmp_path / "missing" / "report.json"):
            ended = run(app, ["check", "none", "--paper", "--out", str(out)])
            assert ended.exit_code == 2
            assert "--out" in ended.stderr


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

    def test_json_is_the_report_and_progress_goes_elsewhere(self, text: Path) -> None:
        ended = run(app, [*self.arguments(text), "--json"])
        report = json.loads(ended.stdout)
        assert report == json.loads((text.parent / "out" / "report.json").read_text())
        assert set(report["encodings"]) == {"none", "alibi"}

    def test_the_command_in_the_report_is_the_same_comparison(
        self, text: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[Comparison] = []

        def keep(comparison: Comparison, _: object) -> Any:
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
        monkeypatch.setattr(posenc.lab.compare, "compare", lambda one, _: seen.append(one))
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
            (["--text", "no/such/file"], "no/such/file"),
            (["--train-length", "4"], "at least 8"),
            (["--minutes", "1", "--steps", "5"], "one budget, not two"),
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
            report = tmp_path / "report.html"

        Ended.interrupted, Ended.failed = interrupted, failed
        (tmp_path / "report.json").write_text("{}")
        monkeypatch.setattr(posenc.lab.compare, "compare", lambda *_: Ended)
        assert run(app, ["compare", "--json"]).exit_code == code
