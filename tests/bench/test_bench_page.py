"""bench.html, bench.json and the command."""

import dataclasses
import json
import random
from html import escape
from pathlib import Path

import pytest
import torch
from bench_cases import MACHINE, about, case_of, result
from typer.testing import CliRunner

from posenc.bench.cases import all_cases
from posenc.bench.page import write_page
from posenc.bench.result import Result
from posenc.bench.run import report
from posenc.bench.timing import ratio
from posenc.bench.verdict import lines
from posenc.commands import app

EVERY = all_cases()


class TestPage:
    def test_it_holds_every_case_and_needs_no_network(self, tmp_path: Path) -> None:
        chance = random.Random(0)
        results = []
        for case in EVERY:
            names = list(case.contestants)
            values = {name: [chance.uniform(1, 3) for _ in range(7)] for name in names[:-1]}
            reason = {names[-1]: "it <b>failed</b>"}
            results.append(Result(case, values, reason, note="auto takes native"))
        data = report({**about(), "quick": False}, results)
        html = write_page(tmp_path, data, results).read_text("utf-8")
        for case in EVERY:
            kind, _, rest = case.name.partition(", ")
            assert f"{kind}, " in html
            assert (rest or kind) in html
        goals = [line.goal for line in lines(results)]
        assert all(escape(goal.row) in html and escape(goal.line) in html for goal in goals)
        assert "figures for GPUs are missing" in html
        assert "it &lt;b&gt;failed&lt;/b&gt;" in html
        assert html.count("<figure") == 10
        assert "http" not in html.replace("http://www.w3.org", "")

    def test_a_run_of_nothing_is_a_page(self, tmp_path: Path) -> None:
        results = [Result(EVERY[0], {}, dict.fromkeys(EVERY[0].contestants, "it was killed"))]
        html = write_page(tmp_path, report(about(), results), results).read_text("utf-8")
        assert "not available" in html
        assert "it was killed" in html

    def test_what_is_missed_or_lost_is_named_case_by_case(self, tmp_path: Path) -> None:
        names = ("the first, of all", "the second, of all", "the third, of all")
        results = [
            result(1.0, name=names[0]),
            result(1.9, name=names[1]),
            result(1.2, peer=1.0, name=names[2]),
        ]
        html = write_page(tmp_path, report(about(), results), results).read_text("utf-8")
        _, _, after = html.partition("Cases that are missed or lost")
        listed, _, _ = after.partition("</table>")
        assert [name in listed for name in names] == [False, True, True]
        assert "1.20 times peer" in listed
        goal = dataclasses.replace(case_of().goals[0], least="peer")
        missed = [result(1.9, peer=1.7, goals=(goal,))]
        html = write_page(tmp_path, report(about(), missed), missed).read_text("utf-8")
        assert html.count("peer: 1.70") == 2
        # A page of what is met has no such list.
        html = write_page(tmp_path, report(about(), results[:1]), results[:1]).read_text("utf-8")
        assert "Cases that are missed or lost" not in html


class TestCommand:
    def test_a_smoke_run(self, tmp_path: Path) -> None:
        words = ["bench", "--quick", "--only", "rotary", "--seconds", "0.01", "--threads", "1"]
        ended = CliRunner().invoke(app, [*words, "--out", str(tmp_path), "--json"])
        assert ended.exit_code == 0, ended.output
        data = json.loads((tmp_path / "bench.json").read_text("utf-8"))
        assert json.loads(ended.stdout) == data
        assert set(data) == {
            "version", "command", "started", "quick", "machine", "headline", "noise", "figures",
            "cases",
        }  # fmt: skip
        assert set(data["machine"]) == set(MACHINE)
        assert data["machine"]["torch"] == torch.__version__
        (case,) = data["cases"]
        (goal,) = case["goals"]
        own, floor = case["values"][goal["who"]], case["values"][case["floor"]]
        assert goal["found"]["median"] == pytest.approx(ratio(own, floor).median)
        (figure,) = data["figures"]
        assert figure["found"][1] == pytest.approx(ratio(own, floor).median)
        assert ("missed" in figure["verdict"]) is (figure["found"][1] > goal["reach"])
        assert (figure["row"], figure["line"]) == (goal["row"], goal["line"])
        assert (tmp_path / "bench.html").read_text("utf-8").count("<main>") == 1

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["--only", "rotery"], "did you mean 'rotary'"),
            (["--only", "rotary,"], "no group, or word of a case's name, is called ''"),
            (["--only", "help", "--seconds", "0"], "seconds=0.0"),
            (["--only", "help", "--threads", "0"], "threads=0"),
            (["--only", "help", "--out", __file__], "exists"),
        ],
    )
    def test_wrong_arguments(self, words: list[str], message: str) -> None:
        ended = CliRunner().invoke(app, ["bench", *words])
        assert ended.exit_code == 2
        assert message in ended.stderr
        assert "Traceback" not in ended.stderr
