"""`posenc check`: what it prints and reports, and how it ends."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import posenc as pe
import posenc.lab.compare
import posenc.testing
import posenc.testing.suite
from posenc.commands import app
from posenc.testing import Case, Peer, Result

run = CliRunner().invoke


BARE = """
import sys
from importlib.machinery import PathFinder
found = PathFinder.find_spec
hidden = ("safetensors", "numpy", "scipy", "matplotlib", "onnx")
PathFinder.find_spec = classmethod(
    lambda cls, name, *rest: None if name.partition(".")[0] in hidden else found(name, *rest)
)
from posenc.testing import suite
checks = suite.all_checks()
suite.all_checks = lambda: {name: checks[name] for name in ("check_repr", "check_safetensors")}
sys.argv = ["posenc", "check", "none", "--json"]
from posenc.cli import main
main()
"""


def test_it_needs_nothing_but_its_own_extra() -> None:
    """Neither safetensors nor numpy: the check that needs them is skipped, and says so."""
    ended = subprocess.run([sys.executable, "-c", BARE], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    # torch says before that it misses numpy.
    assert ended.stderr.endswith("checking NoPE()\n")
    results = {row["check"]: row for row in json.loads(ended.stdout)}
    assert results["check_repr"]["status"] == "passed"
    assert results["check_safetensors"]["status"] == "skipped"
    assert results["check_safetensors"]["detail"] == "it needs safetensors, which is not installed"


class TestCheck:
    @pytest.fixture(autouse=True)
    def few_checks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        checks = posenc.testing.suite.all_checks()
        few = {name: checks[name] for name in list(checks)[:2]}
        monkeypatch.setattr(posenc.testing.suite, "all_checks", lambda: few)

    def fail(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def results(encoding: pe.Encoding, **_: object) -> list[Result]:
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

    def test_checks_are_narrowed_and_tolerant(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[dict[str, object]] = []
        monkeypatch.setattr(posenc.testing, "run_checks", lambda e, **how: asked.append(how) or [])
        run(app, ["check", "none", "--only", "behaviour", "--tolerance", "1e-5"])
        run(app, ["check", "none", "--only", "check_repr", "--only", "check_pickle"])
        names = ["check_repr", "check_pickle"]
        assert asked == [
            {"tolerance": 1e-5, "only": "behaviour"},
            {"tolerance": 0.0, "only": names},
        ]

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
        ("body", "said"),
        [("yield from ()", "yields nothing"), ("yield 3", "yields 3")],
    )
    def test_a_class_without_examples_fails(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, said: str
    ) -> None:
        (tmp_path / "posenc_mine.py").write_text(
            "import posenc as pe\nclass Mine(pe.NoPE):\n"
            f"    @classmethod\n    def examples(cls):\n        {body}\n"
        )
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "posenc_mine", raising=False)
        ended = run(app, ["check", "none", "posenc_mine:Mine"])
        assert ended.exit_code == 1
        assert "NoPE()" in ended.stdout
        assert "posenc_mine:Mine fails check_examples" in ended.stdout
        assert said in ended.stdout

    @pytest.mark.parametrize("tolerance", ["nan", "-1"])
    def test_a_tolerance_of_no_size_ends_with_2(self, tolerance: str) -> None:
        ended = run(app, ["check", "none", "--tolerance", tolerance])
        assert ended.exit_code == 2
        assert "tolerance" in ended.stderr

    @pytest.mark.parametrize(
        "code",
        ["raise ValueError('no')", "import posenc as pe\nclass Mine(pe.NoPE):\n    examples = 3"],
    )
    def test_a_class_that_is_broken_is_answered_in_one_line(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
    ) -> None:
        (tmp_path / "posenc_mine.py").write_text(code)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "posenc_mine", raising=False)
        ended = run(app, ["check", "posenc_mine:Mine"])
        assert ended.exit_code == 2
        assert ended.stderr.startswith("posenc: encoding 'posenc_mine:Mine' cannot be")
        assert len(ended.stderr.splitlines()) == 1

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
