"""Runs on a cluster of two nodes in this machine: equal to local ones, whoever dies."""

import contextlib
import logging
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lab_runs import BROKEN, Silent
from ray_runs import SLOW, different, kill_worker, two_nodes

from posenc.errors import LabError, SettingError
from posenc.lab.compare import plan
from posenc.lab.complete import complete
from posenc.lab.config import Comparison, RunConfig
from posenc.lab.engine import cluster as connection
from posenc.lab.engine.engine import Engine
from posenc.lab.engine.local import LOCAL
from posenc.lab.engine.parcel import Token
from posenc.lab.engine.ray import Ray
from posenc.lab.folder import CHECKPOINT, read_run
from posenc.lab.text import read_text
from posenc.lab.train import Progress

pytestmark = pytest.mark.unchecked
STEPS = 300


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of encodings, on the path before the cluster is asked for workers."""
    folder = tmp_path_factory.mktemp("modules")
    (folder / "posenc_ray_broken.py").write_text(BROKEN)
    (folder / "posenc_ray_slow.py").write_text(SLOW)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield folder


@pytest.fixture(scope="module")
def nodes(modules: Path) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        # It says beforehand what a later release will do with GPUs.
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        logging.getLogger("ray").setLevel(logging.ERROR)
        with quiet(), two_nodes() as cluster, connection.session():
            connection.connect(cluster.address)
            yield cluster


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Ray leaves pipes and sockets of processes that it started to the garbage collector."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield


@pytest.fixture
def engine(nodes: Any) -> Ray:
    return Ray(nodes.address)


@pytest.fixture
def slow(small: Comparison) -> Comparison:
    return replace(small, encodings=("posenc_ray_slow:Slow",), steps=STEPS)


def carried_out(
    comparison: Comparison,
    engine: Engine,
    hook: Callable[[str, Progress], None] = lambda name, progress: None,
    more: tuple[RunConfig, ...] = (),
    **how: Any,
) -> tuple[Silent, list[str], BaseException | None]:
    """What was heard, the names of the runs, and what ended it early."""
    corpus = read_text(comparison.text)
    configs = [*plan(comparison, corpus), *more]
    (comparison.out / "runs").mkdir(parents=True, exist_ok=True)
    shown = Silent(hook)
    jobs = min(comparison.jobs or 2, engine.at_once())
    stopped = complete(comparison.out, configs, corpus, jobs, shown, engine=engine, **how)
    return shown, [config.name for config in configs], stopped


def elsewhere(comparison: Comparison) -> Comparison:
    return replace(comparison, out=comparison.out / "local")


@pytest.mark.parametrize("shared", [True, False])
def test_rows_and_weights_are_those_of_local_runs(
    small: Comparison, engine: Ray, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not shared:
        # The workers look for a file that is not there.
        monkeypatch.setattr(
            "posenc.lab.engine.ray_driver.token",
            lambda out: contextlib.nullcontext(Token(out, "nowhere", "")),
        )
    first = plan(small, read_text(small.text))[0]
    after = replace(first, base=first.name, learning_rate=0.001)
    local = carried_out(elsewhere(small), LOCAL, more=(after,))
    shown, names, stopped = carried_out(small, engine, more=(after,))
    assert stopped is None
    assert shown.planned == local[0].planned
    assert shown.ends == local[0].ends == dict.fromkeys(names, "done")
    assert sorted(shown.order) == sorted(names)
    assert different(small.out, small.out / "local", names) == []
    runs = [read_run(small.out / "runs" / name) for name in names]
    assert [run.manifest["hardware"]["threads"] for run in runs if run] == [1] * 3
    files = {path.name for path in small.out.glob("runs/*/*")}
    assert files == {"manifest.json", "results.jsonl", "weights.safetensors"}


def test_a_run_that_raises_fails_at_once_and_one_that_dies_after_retries(
    small: Comparison, engine: Ray
) -> None:
    names = tuple(f"posenc_ray_broken:{name}" for name in ("Raises", "Dies"))
    comparison = replace(small, encodings=(*names, "none"))
    shown, (raises, dies, none), stopped = carried_out(comparison, replace(engine, retries=1))
    assert stopped is None
    assert shown.ends == {raises: "failed", dies: "failed", none: "done"}
    assert [name for name, _ in shown.losses] == [dies]
    rows = {name: read_run(small.out / "runs" / name).rows for name in (raises, dies)}
    assert rows[raises][-1]["error"] == "RuntimeError: this encoding is broken"
    assert "embed" in rows[raises][-1]["traceback"]
    assert "SIGKILL" in rows[dies][-1]["error"]
    assert len(rows[dies]) == 1


def test_a_full_disk_ends_all(small: Comparison, engine: Ray) -> None:
    comparison = replace(small, encodings=("posenc_ray_broken:Fills",))
    _, _, stopped = carried_out(comparison, engine)
    assert isinstance(stopped, LabError)
    assert "disk is full" in str(stopped)


class TestDisturbed:
    def test_a_killed_worker_costs_no_more_than_since_the_last_checkpoint(
        self, slow: Comparison, engine: Ray, modules: Path
    ) -> None:
        carried_out(elsewhere(slow), LOCAL)
        steps = modules / "steps"
        undisturbed = steps.stat().st_size
        steps.unlink()
        killed: list[int] = []

        def kill(name: str, progress: Progress) -> None:
            there = (slow.out / "runs" / name / CHECKPOINT).exists()
            if not killed and there and progress.step >= STEPS // 3:
                killed.extend([progress.step] * kill_worker(name))

        shown, names, stopped = carried_out(slow, engine, kill)
        assert stopped is None
        assert killed
        assert [name for name, _ in shown.losses] == names
        assert shown.order == names
        assert different(slow.out, slow.out / "local", names) == []
        # From the beginning, at least so many steps would have been taken twice.
        assert undisturbed < steps.stat().st_size < undisturbed + killed[0]

    def test_a_lost_node_gives_its_run_to_another(
        self, slow: Comparison, engine: Ray, nodes: Any
    ) -> None:
        slow = replace(slow, seeds=2)
        carried_out(elsewhere(slow), LOCAL)
        node = next(iter(nodes.worker_nodes))
        heard: set[str] = set()

        def remove(name: str, progress: Progress) -> None:
            heard.add(name)
            # One run on each node.
            if len(heard) == 2 and node in nodes.worker_nodes:
                nodes.remove_node(node, allow_graceful=False)

        try:
            shown, names, stopped = carried_out(slow, engine, remove)
        finally:
            nodes.add_node(num_cpus=1, object_store_memory=100_000_000)
        assert stopped is None
        assert len(shown.losses) == 1
        assert different(slow.out, slow.out / "local", names) == []

    def test_after_ctrl_c_runs_have_checkpoints_and_go_on(
        self, slow: Comparison, engine: Ray
    ) -> None:
        slow = replace(slow, seeds=3)
        carried_out(elsewhere(slow), LOCAL)

        def interrupt(name: str, progress: Progress) -> None:
            if progress.step > STEPS // 3:
                raise KeyboardInterrupt

        shown, names, stopped = carried_out(slow, engine, interrupt)
        assert isinstance(stopped, KeyboardInterrupt)
        assert shown.notes == ["stopped early"]
        assert set(shown.ends.values()) == {"stopped"}
        assert set(shown.ends) == set(shown.order)
        begun = [name for name in names if name in shown.order]
        assert begun
        assert all((slow.out / "runs" / name / CHECKPOINT).exists() for name in begun)
        again, _, stopped = carried_out(slow, engine)
        assert stopped is None
        assert again.ends == dict.fromkeys(names, "done")
        assert different(slow.out, slow.out / "local", names) == []

    def test_after_the_time_is_over_no_run_begins(self, slow: Comparison, engine: Ray) -> None:
        slow = replace(slow, seeds=4, jobs=4)
        until: list[float] = [time.monotonic() + 3600]

        class Late(Ray):
            def run_all(self, batch: Any, listener: Any, until: float | None = None) -> None:
                super().run_all(batch, listener, soon)

        class Soon(float):
            """Over as soon as a run is heard of."""

            def __lt__(self, now: float) -> bool:
                return until[0] < now

        soon = Soon()

        def over(name: str, progress: Progress) -> None:
            until[0] = 0.0

        shown, names, stopped = carried_out(slow, Late(engine.address), over)
        assert isinstance(stopped, TimeoutError)
        assert "have not begun" in str(stopped)
        assert 1 <= len(shown.order) < len(names)
        assert shown.ends == dict.fromkeys(shown.order, "done")


class TestRefused:
    def test_more_cores_than_any_node_has(self, small: Comparison, nodes: Any) -> None:
        with pytest.raises(SettingError, match=r"--cpus-per-run 2: of the 2 nodes .* for ever"):
            carried_out(small, Ray(nodes.address, cpus_per_run=2))
        with pytest.raises(SettingError, match=r"--gpus-per-run 1: of the 2 nodes .* for ever"):
            carried_out(small, Ray(nodes.address, gpus_per_run=1), device="cuda")
