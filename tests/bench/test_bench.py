"""The benchmark: its cases, how it measures, what it concludes, and what it writes."""

import dataclasses
import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

from posenc.bench.attending import Attending, refuse_quadratic
from posenc.bench.case import Case, Goal, Unavailable, prepared
from posenc.bench.cases import all_cases, chosen
from posenc.bench.decoders import Shape
from posenc.bench.measure import memory, times
from posenc.bench.page import write_page
from posenc.bench.result import Result
from posenc.bench.run import Options, measured, report
from posenc.bench.timing import in_turns, interval, ratio, spread
from posenc.bench.training import Training, before
from posenc.bench.verdict import headline, lines, noise
from posenc.commands import app
from posenc.errors import UnknownNameError

EVERY = all_cases()
# These wait for a compiler; the others are held to posenc's results below.
COMPILED = ("transformers compiled", "FlexAttention")
MACHINE = {
    "cpu": "a CPU", "system": "Linux", "cores": 2, "threads": 2, "flags": ["avx2"],
    "memory_gib": 8.0, "python": "3.11", "torch": "2.13", "posenc": "0.1", "native": "none",
    "wait_policy": None, "gpu": None, "peers": {"transformers": None},
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Nothing:
    def inputs(self) -> None:
        return None

    def small(self) -> "Nothing":
        return self


def case_of(**changes: Any) -> Case:
    runs = {name: lambda _: lambda: None for name in ("floor", "posenc", "peer")}
    goal = Goal("a row", "a line", "posenc", "floor", 1.5)
    given: dict[str, Any] = {"name": "a case, of all", "group": "rotary", "goals": (goal,)}
    return Case(**{"setting": Nothing(), "contestants": runs, "floor": "floor", **given, **changes})


class TestTiming:
    def test_the_interval_is_that_of_the_sign_test(self) -> None:
        # Of 11, the second and the tenth enclose the median with probability 0.988.
        found = interval(random.Random(0).sample(range(1, 12), 11))
        assert (found.low, found.median, found.high) == (2, 6, 10)
        assert dataclasses.astuple(interval([3.0, 1.0, 2.0])) == (1.0, 2.0, 3.0)

    def test_ratios_are_taken_round_by_round(self) -> None:
        # The machine became ten times slower after the first round.
        found = ratio([2.0, 20.0, 20.0], [1.0, 10.0, 10.0])
        assert dataclasses.astuple(found) == (2.0, 2.0, 2.0)

    def test_spread_is_that_of_the_quartiles(self) -> None:
        assert spread([1.0] * 9) == 0.0
        assert spread([1.0, 1.0, 2.0, 3.0, 3.0]) == 1.0

    def test_every_round_runs_all_in_a_random_order(self) -> None:
        ran: list[str] = []

        def self_timed(name: str, seconds: float) -> Any:
            return lambda: ran.append(name) or seconds

        calls = {name: self_timed(name, 1.0 + i) for i, name in enumerate("abc")}
        found = in_turns(calls, seconds=0.0, rounds=(7, 40))
        assert found == {"a": [1.0] * 7, "b": [2.0] * 7, "c": [3.0] * 7}
        rounds = ["".join(ran[i : i + 3]) for i in range(6, len(ran), 3)]
        assert len(rounds) == 7
        assert {"".join(sorted(each)) for each in rounds} == {"abc"}
        assert len(set(rounds)) > 2

    def test_what_is_not_warmed_up_runs_in_rounds_alone(self) -> None:
        ran: list[int] = []
        found = in_turns({"a": lambda: ran.append(1)}, seconds=9.0, rounds=(2, 5), warm=False)
        assert len(found["a"]) == len(ran) == 2


class TestCases:
    def test_names_are_unique_and_goals_name_contestants(self) -> None:
        assert len({case.name for case in EVERY}) == len(EVERY)
        for case in EVERY:
            assert case.floor in case.contestants
            for goal in case.goals:
                assert {goal.who, goal.base} <= set(case.contestants)

    def test_every_row_of_the_figures_is_there_in_both_dtypes(self) -> None:
        lines_of: dict[str, set[str]] = {}
        for case in EVERY:
            for goal in case.goals:
                lines_of.setdefault(goal.row, set()).add(goal.line)
        assert len(lines_of) == 12
        for row, found in lines_of.items():
            assert all(any(dtype in line for line in found) for dtype in ("float32", "bfloat16"))
            if row.startswith("rotate"):
                assert len(found) == 4

    def test_of_a_smoke_run_there_is_one_of_each_group(self) -> None:
        groups = list(dict.fromkeys(case.group for case in EVERY))
        assert [case.group for case in chosen((), quick=True)] == groups

    def test_only_takes_groups_and_words_of_names(self) -> None:
        assert {case.group for case in chosen(("memory",), quick=False)} == {"memory"}
        found = chosen(("kerple", "--help"), quick=False)
        assert all("kerple" in case.name or "--help" in case.name for case in found)
        with pytest.raises(UnknownNameError, match=r"'rotery'.*did you mean 'rotary'"):
            chosen(("rotery",), quick=False)

    def test_what_would_fill_the_machine_is_refused(self) -> None:
        refuse_quadratic(Attending("t5", 2048, "float32"))
        refuse_quadratic(Attending("t5", 32_768, "float32", queries=1))
        with pytest.raises(Unavailable, match=r"quadratic.* 2 GiB"):
            refuse_quadratic(Attending("t5", 8192, "float32"))


def kinds() -> list[Case]:
    """A case of each kind whose contestants return tensors: at small size they are the same."""
    found: dict[Any, Case] = {}
    for case in EVERY:
        at: Any = case.setting
        if case.group in ("rotary", "attention", "decode") and hasattr(at, "dtype"):
            small = at.small()
            found.setdefault((case.name.partition(",")[0], small, tuple(case.contestants)), case)
    return list(found.values())


class TestContestants:
    @pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
    @pytest.mark.parametrize("case", kinds(), ids=lambda case: case.name)
    def test_they_compute_the_same(self, case: Case) -> None:
        setting: Any = case.setting
        bound = 1e-5 if setting.dtype == "float32" else 2e-2
        wanted: Sequence[Tensor] | None = None
        compared = 0
        for name, make in case.contestants.items():
            if name == case.floor or name in COMPILED or "multiply in" in name or name == "clone":
                continue
            try:
                # Made anew for each, for some write into their inputs.
                got: Any = make(setting.small().inputs())()
            except (ModuleNotFoundError, Unavailable):
                continue
            if got is None:
                continue
            # Gradients of tables have shapes of their own; those of q, k and v are common.
            got = [got] if isinstance(got, Tensor) else list(got[:3])
            if wanted is None:
                wanted = got
                continue
            for ours, theirs in zip(wanted, got, strict=True):
                error = (ours.float() - theirs.float()).abs().max() / ours.float().abs().max()
                assert error < bound, name
            compared += 1
        assert wanted is not None or compared == 0

    def test_a_peer_that_is_not_there_is_said_in_a_line(self) -> None:
        def missing(_: None) -> Any:
            import posenc_has_no_such_peer

            return posenc_has_no_such_peer

        def broken(_: None) -> Any:
            return lambda: torch.ones(2) @ torch.ones(3)

        runs = case_of().contestants | {"peer": missing, "other": broken}
        found = times(case_of(contestants=runs), quick=True, seconds=0.0)
        assert set(found["values"]) == {"floor", "posenc"}
        assert found["missing"]["peer"] == "posenc_has_no_such_peer is not installed"
        assert found["missing"]["other"].startswith("failed: RuntimeError: inconsistent")

    def test_an_unknown_backend_is_not_available(self) -> None:
        from posenc.bench.attending import ours

        at = Attending("alibi", 16, "float32").inputs()
        assert prepared(ours("nobody"), at) == "no backend is called nobody"

    def test_terms_are_lowered_before_and_their_tables_are_leaves(self) -> None:
        at = Attending("t5", 16, "float32").inputs()
        (table,) = at.learned
        assert table.is_leaf
        assert table.shape[0] == 8

    def test_the_step_before_runs_in_a_process_of_its_own(self) -> None:
        step = before(Training("t5", Shape(8, 1, 2, 8, 1)))
        seconds = step()
        assert isinstance(seconds, float)
        assert seconds > 0


class TestMemory:
    def test_it_is_what_a_run_adds(self) -> None:
        kept: list[Tensor] = []

        def large(_: None) -> Any:
            return lambda: kept.append(torch.ones(64, 2**18)) if not kept else None

        class Growing(Nothing):
            def inputs(self) -> None:
                kept.clear()

        # Warmed up by all contestants, a process has held its 64 MiB before: nothing is added.
        case = case_of(measure="memory", setting=Growing(), contestants={"floor": large})
        found = memory(case, "floor", quick=False)
        assert 0 <= found["value"] < 70

    def test_who_cannot_run_says_why(self) -> None:
        def refused(_: None) -> Any:
            raise Unavailable("too large")

        case = case_of(measure="memory", contestants={"floor": refused})
        assert memory(case, "floor", quick=False) == {"missing": "too large"}


def result(posenc: float | None, peer: float = 5.0, **changes: Any) -> Result:
    values = {"floor": [1.0] * 7, "peer": [peer] * 7}
    if posenc is None:
        return Result(case_of(**changes), values, {"posenc": "no compiler"})
    return Result(case_of(**changes), values | {"posenc": [posenc] * 7})


class TestVerdict:
    def test_a_line_stands_for_its_worst_case(self) -> None:
        (line,) = lines([result(1.2), result(1.4, peer=3.0, name="the other")])
        assert (line.verdict, line.cases, line.worst) == ("met", 2, "the other")
        assert line.found is not None
        assert line.found.median == 1.4
        assert line.best_peer is not None
        assert (line.best_peer[0], line.best_peer[1].median) == ("peer", 3.0)

    @pytest.mark.parametrize(
        ("found", "verdict"),
        [((1.2, 1.6), "not met"), ((1.2, None), "not available"), ((1.6, None), "not met")],
    )
    def test_one_case_decides(self, found: tuple[float | None, ...], verdict: str) -> None:
        (line,) = lines([result(one, name=f"case {one}") for one in found])
        assert line.verdict == verdict
        if None in found:
            assert line.lacking == {"case None": "no compiler"}

    def test_memory_is_a_difference(self) -> None:
        (line,) = lines([result(33.0, measure="memory")])
        assert line.unit == "MiB"
        assert line.found is not None
        assert line.found.median == 32.0

    def test_a_noisy_floor_is_said(self) -> None:
        loud = {"floor": [1.0, 2.0, 1.0, 2.0, 3.0], "posenc": [1.0] * 5}
        assert noise([result(1.0)]) is None
        assert "1 of 2 cases" in str(noise([result(1.0), Result(case_of(), loud)]))
        assert lines([Result(case_of(), loud)])[0].noisy

    def test_the_headline_counts(self) -> None:
        table = lines([result(1.0), result(2.0, goals=(Goal("b", "c", "posenc", "floor", 1),))])
        assert headline(table) == "1 of 2 figures are met, 1 not met"
        assert headline([]) == "None of the cases that ran has a figure to reach"


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
        assert all(line.row in html and line.line in html for line in lines(results))
        assert "figures for GPUs are missing" in html
        assert "it &lt;b&gt;failed&lt;/b&gt;" in html
        assert html.count("<figure") == 6
        assert "http" not in html.replace("http://www.w3.org", "")

    def test_a_run_of_nothing_is_a_page(self, tmp_path: Path) -> None:
        results = [Result(EVERY[0], {}, dict.fromkeys(EVERY[0].contestants, "it was killed"))]
        html = write_page(tmp_path, report(about(), results), results).read_text("utf-8")
        assert "not available" in html
        assert "it was killed" in html


def about() -> dict[str, Any]:
    known = {"version": 1, "command": "posenc bench", "started": "2026-01-01T00:00:00Z"}
    return {**known, "quick": True, "machine": MACHINE}


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
        assert goal["met"] is (goal["found"]["median"] <= goal["reach"])
        (figure,) = data["figures"]
        assert (figure["row"], figure["line"]) == (goal["row"], goal["line"])
        assert (tmp_path / "bench.html").read_text("utf-8").count("<main>") == 1

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["--only", "rotery"], "did you mean 'rotary'"),
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

    @pytest.mark.parametrize("measure", ["time", "memory"])
    def test_a_worker_that_fails_is_a_result_without_values(
        self, measure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        broken = tmp_path / "python"
        broken.write_text("#!/bin/sh\necho it broke >&2\nexit 3\n")
        broken.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(broken))
        found = measured(case_of(measure=measure), Options(tmp_path, quick=True), 1)
        assert found.values == {}
        assert set(found.missing) == {"floor", "posenc", "peer"}
        assert set(found.missing.values()) == {"the process ended with code 3: it broke"}
