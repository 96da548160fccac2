"""What a benchmark measures of memory, and of workers that fail."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from bench_cases import Nothing, case_of
from torch import Tensor

import posenc.bench.run
from posenc.bench.case import Unavailable
from posenc.bench.measure import memory
from posenc.bench.run import Options, measured
from posenc.bench.worker import answer
from posenc.torch_modes import threads


def broken(request: dict[str, Any], folder: str) -> None:
    Path(folder, "said.txt").write_text("first\nit broke\n\n")
    os._exit(3)


def killed(request: dict[str, Any], folder: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hanging(request: dict[str, Any], folder: str) -> None:
    time.sleep(60)


def threaded(request: dict[str, Any], folder: str) -> None:
    torch.set_num_threads(2)
    Path(folder, "said.txt").write_text(f"kernels use {threads()} threads")
    os._exit(3)


def compiling(request: dict[str, Any], folder: str) -> None:
    with suppress(StopIteration):
        # No such case is declared.
        answer(request, folder)
    from torch._inductor.codecache import cache_dir

    print("compiles within", Path(cache_dir()).relative_to(folder), flush=True)
    os._exit(3)


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


class TestWorkers:
    @pytest.mark.parametrize(
        ("measure", "worker", "why"),
        [
            ("time", broken, "the process ended with code 3: it broke"),
            ("memory", killed, "the process ended with code -9: it said nothing"),
            ("time", hanging, "it took more than 1 s"),
        ],
    )
    def test_a_worker_that_fails_is_a_result_without_values(
        self,
        worker: Any,
        why: str,
        measure: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(posenc.bench.run, "answer", worker)
        if worker is hanging:
            monkeypatch.setattr(posenc.bench.run, "LIMIT_SECONDS", 1.0)
        found = measured(case_of(measure=measure), Options(tmp_path, quick=True), 1)
        assert found.values == {}
        assert found.missing == dict.fromkeys(("floor", "posenc", "peer"), why)

    def test_kernels_have_all_threads_in_a_worker(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """In a fork of a process that imported posenc they would have one."""
        monkeypatch.setattr(posenc.bench.run, "answer", threaded)
        found = measured(case_of(), Options(tmp_path, quick=True), 1)
        # It tells by its last words, which a result shows where a worker ends without an answer.
        assert set(found.missing.values()) == {
            "the process ended with code 3: kernels use 2 threads"
        }

    def test_what_torch_compiles_is_of_this_worker_alone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(posenc.bench.run, "answer", compiling)
        found = measured(case_of(), Options(tmp_path, quick=True), 1)
        assert set(found.missing.values()) == {
            "the process ended with code 3: compiles within compiled"
        }

    def test_what_a_worker_prints_is_not_mixed_with_results(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        found = measured(case_of(), Options(tmp_path, quick=True), 1)
        # No such case is declared.
        assert set(found.missing.values()) == {"the process ended with code 1: StopIteration"}
        assert capfd.readouterr() == ("", "")

    def test_memory_is_measured_again_and_again_in_turns(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[str] = []

        def answer(request: dict[str, Any]) -> dict[str, Any]:
            asked.append(request["contestant"])
            if request["contestant"] == "peer":
                return {"missing": "too large"} if len(asked) < 4 else {"value": 1.0}
            return {"value": float(len(asked))}

        monkeypatch.setattr(posenc.bench.run, "_ask", answer)
        found = measured(case_of(measure="memory", rounds=(3, 3)), Options(tmp_path), 1)
        # What cannot run once is not asked again.
        assert asked == ["floor", "posenc", "peer"] + ["floor", "posenc"] * 2
        assert found.values == {"floor": [1.0, 4.0, 6.0], "posenc": [2.0, 5.0, 7.0]}
        assert found.missing == {"peer": "too large"}
        spread = found.against("posenc", "floor")
        assert spread is not None
        assert (spread.low, spread.median, spread.high) == (1.0, 1.0, 1.0)
