"""The main job end to end with tiny models: plan, workers, resume, failures."""

import io
import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lab_runs import Silent, runs_of

from posenc.errors import LabError
from posenc.lab.compare import Comparison, Outcome, compare
from posenc.lab.folder import RESULTS, WEIGHTS, Run, locked
from posenc.lab.leftovers import remove_leftovers
from posenc.lab.progress import display
from posenc.lab.train import Progress


def losses(run: Run) -> list[Any]:
    """Everything in a run's rows that does not depend on the clock."""
    timed = ("seconds", "ms_per_step", "peak_memory_mb")
    return [{key: row[key] for key in row if key not in timed} for row in run.rows]


def same(first: Outcome, second: Outcome) -> bool:
    pairs = list(zip(first.runs, second.runs, strict=True))
    assert pairs
    return all(
        a.config == b.config
        and losses(a) == losses(b)
        and (a.path / WEIGHTS).read_bytes() == (b.path / WEIGHTS).read_bytes()
        for a, b in pairs
    )


class TestCompare:
    def test_leaves_results_and_a_report_and_does_nothing_when_repeated(
        self, small: Comparison
    ) -> None:
        comparison = replace(small, seeds=2)
        shown = Silent()
        outcome = compare(comparison, shown)
        assert not outcome.interrupted
        assert [run.state for run in outcome.runs] == ["done"] * 4
        assert [name.rpartition("-")[0] for name in shown.order] == [
            "none-s0",
            "alibi-s0",
            "none-s1",
            "alibi-s1",
        ]
        assert set(shown.ends.values()) == {"done"}
        assert outcome.report == small.out / "report.html"
        report = json.loads((small.out / "report.json").read_text())
        assert report["command"] == comparison.command()
        for run in outcome.runs:
            kinds = [row["kind"] for row in run.rows]
            assert kinds == ["train"] * 40 + ["cost"] + ["loss"] * 6 + ["by_position", "done"]
            assert run.rows[40]["peak_memory_mb"] > 0
            assert run.manifest["encoding"] == run.config.settings
            assert run.manifest["corpus"]["sha256"] == run.config.corpus
            assert run.manifest["hardware"]["threads"] >= 1

        paths = [run.path / RESULTS for run in outcome.runs]
        before = [(path.stat().st_mtime_ns, path.read_bytes()) for path in paths]
        again = Silent()
        compare(comparison, again)
        assert again.planned == (4, 4)
        assert again.order == []
        assert [(path.stat().st_mtime_ns, path.read_bytes()) for path in paths] == before

    def test_less_text_to_train_on_is_another_run_and_the_same_test(
        self, small: Comparison
    ) -> None:
        small = replace(small, encodings=("none",))
        (whole,) = compare(small, Silent()).runs
        shorter = replace(small, train_bytes=100)
        assert "--train-bytes 100" in shorter.command()
        (run,) = compare(shorter, Silent()).runs
        assert run.path != whole.path
        sizes = [each.manifest["corpus"]["test_bytes"] for each in (run, whole)]
        assert sizes[0] == sizes[1]
        assert run.manifest["corpus"]["train_bytes"] == 100

    def test_another_encoding_trains_that_one_alone(self, small: Comparison) -> None:
        compare(replace(small, encodings=("none",)), Silent())
        shown = Silent()
        outcome = compare(small, shown)
        assert [name.partition("-")[0] for name in shown.order] == ["alibi"]
        assert [run.config.encoding for run in outcome.runs] == ["none", "alibi"]

    def test_an_interrupted_comparison_goes_on_bit_for_bit(self, small: Comparison) -> None:
        comparison = replace(small, steps=400)
        whole = compare(replace(comparison, out=small.out / "whole"), Silent())

        def interrupt(name: str, progress: Progress) -> None:
            raise KeyboardInterrupt

        shown = Silent(interrupt)
        cut = compare(comparison, shown)
        assert cut.interrupted
        assert "stopped" in shown.ends.values()
        assert (small.out / "report.html").exists()
        assert multiprocessing.active_children() == []
        assert any(run.state == "unfinished" for run in cut.runs)

        resumed = compare(comparison, Silent())
        assert not resumed.interrupted
        assert [run.state for run in resumed.runs] == ["done", "done"]
        assert same(resumed, whole)

    def test_a_killed_worker_fails_alone_and_goes_on_next_time(self, small: Comparison) -> None:
        comparison = replace(small, steps=400)
        whole = compare(replace(comparison, out=small.out / "whole"), Silent())

        victims = ["alibi"]

        def kill(name: str, progress: Progress) -> None:
            for child in multiprocessing.active_children():
                if child.name == name and name.partition("-")[0] in victims:
                    victims.clear()
                    os.kill(child.pid or 0, signal.SIGKILL)

        outcome = compare(comparison, Silent(kill))
        states = {run.config.encoding: run for run in outcome.runs}
        assert states["none"].state == "done"
        assert outcome.failed == [states["alibi"]]
        assert "SIGKILL" in states["alibi"].rows[-1]["error"]
        assert "memory runs out" in states["alibi"].rows[-1]["error"]

        resumed = compare(comparison, Silent())
        assert [run.state for run in resumed.runs] == ["done", "done"]
        weights = [
            [(run.path / WEIGHTS).read_bytes() for run in of.runs] for of in (resumed, whole)
        ]
        assert weights[0] == weights[1]

    def test_kill_9_of_everything_loses_nothing_and_leaves_nothing(
        self, small: Comparison, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        comparison = replace(small, jobs=1)
        command = [sys.executable, "-c", "from posenc.cli import main; main()"]
        command += comparison.command().split()[1:]
        # Short, for the path of a socket has its limit.
        leftovers = Path(tempfile.mkdtemp())
        environment = {**os.environ, "TMPDIR": str(leftovers)}
        with subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env=environment
        ) as process:
            assert process.stderr
            for line in process.stderr:
                if line.startswith("alibi") and "begins" in line:
                    break
            process.kill()
        # A copy of the text, and the sockets of its workers.
        assert list(leftovers.glob(f"posenc-{process.pid}-*/text"))
        swept = []

        def sweep() -> None:
            # Workers that compare starts keep their sockets where the others are.
            with monkeypatch.context() as elsewhere:
                elsewhere.setattr(tempfile, "tempdir", str(leftovers))
                remove_leftovers()
            swept.extend(path.name for path in leftovers.iterdir())

        monkeypatch.setattr("posenc.lab.complete.remove_leftovers", sweep)
        shown = Silent()
        outcome = compare(comparison, shown)
        assert [run.state for run in outcome.runs] == ["done", "done"]
        assert shown.planned == (2, 1)
        # torch leaves a folder of its own.
        assert not [name for name in swept if name.startswith(("posenc-", "pymp-"))]
        shutil.rmtree(leftovers)

    def test_a_broken_encoding_fails_alone_with_its_reason(
        self, small: Comparison, broken: str
    ) -> None:
        names = (f"{broken}:Raises", f"{broken}:Dies", "none")
        outcome = compare(replace(small, encodings=names), Silent())
        raises, dies, none = outcome.runs
        assert none.state == "done"
        assert raises.rows[-1]["error"] == "RuntimeError: this encoding is broken"
        assert "embed" in raises.rows[-1]["traceback"]
        assert "SIGKILL" in dies.rows[-1]["error"]
        assert outcome.failed == [raises, dies]

    def test_a_full_disk_stops_the_work_and_keeps_what_is_done(
        self, small: Comparison, broken: str
    ) -> None:
        names, shown = ("none", f"{broken}:Fills", "alibi"), io.StringIO()
        with pytest.raises(LabError, match=r"disk is full .*make room"):
            compare(replace(small, encodings=names, jobs=1), display(shown))
        assert re.search("Fills-.*: stopped: the disk is full", shown.getvalue())
        states = {run.config.encoding: run.state for run in runs_of(small.out)}
        assert states == {"none": "done", f"{broken}:Fills": "unfinished"}
        assert (small.out / "report.html").exists()

    @pytest.mark.parametrize("kind", ["loss", "by_position", "cost", "done"])
    def test_a_row_that_was_damaged_is_told_and_made_again(
        self, small: Comparison, kind: str
    ) -> None:
        outcome = compare(small, Silent())
        path = outcome.runs[0].path / RESULTS
        lines = path.read_bytes().splitlines(keepends=True)
        at = next(i for i, line in enumerate(lines) if json.loads(line)["kind"] == kind)
        path.write_bytes(b"".join([*lines[:at], b"garbage\n", *lines[at + 1 :]]))
        shown = Silent()
        again = compare(small, shown)
        assert shown.planned == (2, 1)
        assert f"line {at + 1}" in shown.notes[0]
        wanted, found = losses(outcome.runs[0]), losses(again.runs[0])
        assert found[-1]["kind"] == "done"
        assert all(row in found for row in wanted)
        shown = Silent()
        compare(small, shown)
        assert shown.planned == (2, 2)

    def test_a_damaged_manifest_is_written_again(self, small: Comparison) -> None:
        outcome = compare(small, Silent())
        (outcome.runs[0].path / "manifest.json").write_text("{")
        again = compare(small, Silent())
        assert same(again, outcome)

    def test_a_folder_in_use_is_refused(self, small: Comparison) -> None:
        pytest.importorskip("fcntl")
        small.out.mkdir()
        with (
            locked(small.out, wait=False),
            pytest.raises(LabError, match="another posenc works in"),
        ):
            compare(small, Silent())
