"""Runs on a cluster of two nodes in this machine: equal to local ones, whoever dies."""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lab_runs import BROKEN, Silent
from ray_runs import SLOW, add_node, cluster_of, different, kill_worker

from posenc.errors import LabError, SettingError
from posenc.lab.compare import plan
from posenc.lab.complete import complete
from posenc.lab.config import Comparison, RunConfig
from posenc.lab.engine.engine import Carrier
from posenc.lab.engine.local import LOCAL
from posenc.lab.engine.parcel import Token
from posenc.lab.engine.ray import Ray
from posenc.lab.folder import CHECKPOINT, read_run
from posenc.lab.text import read_text
from posenc.lab.train import Progress

pytestmark = pytest.mark.long
STEPS = 200


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
        with cluster_of(2) as cluster:
            yield cluster


@pytest.fixture(scope="module")
def carrier(nodes: Any) -> Iterator[Carrier]:
    """One connection for all, whose workers have torch loaded after the first run."""
    with Ray(nodes.address, retries=1).opened() as carrier:
        yield carrier


@pytest.fixture(scope="module")
def whole(modules: Path, text: Path, tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """Slow runs of two seeds, as they are where nothing disturbs them."""
    out = tmp_path_factory.mktemp("whole")
    whole = slow_runs(text, out, 2)
    carried_out(whole, LOCAL)
    return whole


def slow_runs(text: Path, out: Path, seeds: int) -> Comparison:
    return Comparison(
        encodings=("posenc_ray_slow:Slow",),
        train_length=8,
        test_lengths=(16,),
        dim=8,
        depth=1,
        heads=2,
        batch=4,
        steps=STEPS,
        seeds=seeds,
        text=(text,),
        out=out,
        jobs=2,
    )


def carried_out(
    comparison: Comparison,
    carrier: Carrier,
    hook: Callable[[str, Progress], None] = lambda name, progress: None,
    more: tuple[RunConfig, ...] = (),
    shown: Silent | None = None,
    **how: Any,
) -> tuple[Silent, list[str], BaseException | None]:
    """What was heard, the names of the runs, and what ended it early."""
    corpus = read_text(comparison.text)
    configs = [*plan(comparison, corpus), *more]
    (comparison.out / "runs").mkdir(parents=True, exist_ok=True)
    shown = shown or Silent(hook)
    stopped = complete(
        comparison.out, configs, corpus, comparison.jobs or 2, shown, carrier=carrier, **how
    )
    return shown, [config.name for config in configs], stopped


def elsewhere(comparison: Comparison) -> Comparison:
    return replace(comparison, out=comparison.out / "local")


@pytest.mark.parametrize("shared", [True, False])
def test_rows_and_weights_are_those_of_local_runs(
    small: Comparison, carrier: Carrier, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not shared:
        # The workers look for a file that is not there.
        monkeypatch.setattr(
            "posenc.lab.engine.ray_process.token",
            lambda out: contextlib.nullcontext(Token(out, "nowhere", "")),
        )
    first = plan(small, read_text(small.text))[0]
    after = replace(first, base=first.name, learning_rate=0.001)
    local = carried_out(elsewhere(small), LOCAL, more=(after,))
    shown, names, stopped = carried_out(small, carrier, more=(after,))
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
    small: Comparison, carrier: Carrier
) -> None:
    names = tuple(f"posenc_ray_broken:{name}" for name in ("Raises", "Dies"))
    comparison = replace(small, encodings=(*names, "none"))
    shown, (raises, dies, none), stopped = carried_out(comparison, carrier)
    assert stopped is None
    assert shown.ends == {raises: "failed", dies: "failed", none: "done"}
    assert [name for name, _ in shown.losses] == [dies]
    rows = {name: read_run(small.out / "runs" / name).rows for name in (raises, dies)}
    assert rows[raises][-1]["error"] == "RuntimeError: this encoding is broken"
    assert "embed" in rows[raises][-1]["traceback"]
    assert "SIGKILL" in rows[dies][-1]["error"]
    assert len(rows[dies]) == 1


def test_a_full_disk_ends_all(small: Comparison, carrier: Carrier) -> None:
    comparison = replace(small, encodings=("posenc_ray_broken:Fills",))
    _, _, stopped = carried_out(comparison, carrier)
    assert isinstance(stopped, LabError)
    assert "disk is full" in str(stopped)


class TestDisturbed:
    def test_a_killed_worker_costs_no_more_than_since_the_last_checkpoint(
        self,
        whole: Comparison,
        tmp_path: Path,
        carrier: Carrier,
        modules: Path,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        steps = modules / "steps"
        undisturbed = steps.stat().st_size // 2
        steps.unlink()
        slow = slow_runs(whole.text[0], tmp_path, 1)
        killed: list[int] = []

        def kill(name: str, progress: Progress) -> None:
            there = (slow.out / "runs" / name / CHECKPOINT).exists()
            if not killed and there and progress.step >= STEPS // 3:
                killed.extend([progress.step] * kill_worker(name))

        shown, names, stopped = carried_out(slow, carrier, kill)
        assert stopped is None
        assert killed
        # Ray's own account of it would stand before what --json prints.
        assert capfd.readouterr().out == ""
        assert [name for name, _ in shown.losses] == names
        assert shown.order == names
        assert different(slow.out, whole.out, names) == []
        # From the beginning, at least so many steps would have been taken twice.
        assert undisturbed < steps.stat().st_size < undisturbed + killed[0]

    def test_a_lost_node_gives_its_run_to_another(
        self, whole: Comparison, tmp_path: Path, carrier: Carrier, nodes: Any
    ) -> None:
        slow = replace(whole, out=tmp_path)
        node = next(iter(nodes.worker_nodes))
        heard: set[str] = set()

        def remove(name: str, progress: Progress) -> None:
            heard.add(name)
            # One run on each node.
            if len(heard) == 2 and node in nodes.worker_nodes:
                nodes.remove_node(node, allow_graceful=False)

        try:
            shown, names, stopped = carried_out(slow, carrier, remove)
        finally:
            add_node(nodes)
        assert stopped is None
        assert len(shown.losses) == 1
        assert different(slow.out, whole.out, names) == []

    def test_after_ctrl_c_runs_have_checkpoints_and_go_on(
        self, whole: Comparison, tmp_path: Path, carrier: Carrier
    ) -> None:
        slow = replace(whole, out=tmp_path)

        def interrupt(name: str, progress: Progress) -> None:
            if progress.step > STEPS // 3:
                raise KeyboardInterrupt

        shown, names, stopped = carried_out(slow, carrier, interrupt)
        assert isinstance(stopped, KeyboardInterrupt)
        assert shown.notes == ["stopped early"]
        assert set(shown.ends.values()) == {"stopped"}
        assert shown.order
        assert set(shown.ends) == set(shown.order)
        assert all((slow.out / "runs" / name / CHECKPOINT).exists() for name in shown.order)
        again, _, stopped = carried_out(slow, carrier)
        assert stopped is None
        assert again.ends == dict.fromkeys(names, "done")
        assert different(slow.out, whole.out, names) == []

    def test_a_head_that_dies_leaves_what_is_done(
        self, whole: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        slow = replace(whole, out=tmp_path)

        def behead(name: str, progress: Progress) -> None:
            # The first is done, and the second at work.
            if len(shown.order) == 2 and cluster.head_node is not None:
                cluster.remove_node(cluster.head_node, allow_graceful=False)

        shown = Silent(behead)
        with cluster_of(1) as cluster, Ray(cluster.address).opened() as carrier:
            _, names, stopped = carried_out(slow, carrier, shown=shown)
        assert isinstance(stopped, LabError)
        assert "does not answer any more" in str(stopped)
        assert shown.ends == {names[0]: "done", names[1]: "stopped"}
        again, _, stopped = carried_out(slow, LOCAL)
        assert (again.order, stopped) == (names[1:], None)
        assert different(slow.out, whole.out, names) == []

    def test_after_the_time_is_over_no_run_begins(
        self, text: Path, tmp_path: Path, carrier: Carrier
    ) -> None:
        slow = replace(slow_runs(text, tmp_path, 4), jobs=4)
        until: list[float] = [time.monotonic() + 3600]

        class Soon(float):
            """Over as soon as a run is heard of."""

            def __lt__(self, now: float) -> bool:
                return until[0] < now

        def over(name: str, progress: Progress) -> None:
            until[0] = 0.0

        shown, names, stopped = carried_out(slow, carrier, over, until=Soon())
        assert isinstance(stopped, TimeoutError)
        assert "have not begun" in str(stopped)
        assert 1 <= len(shown.order) < len(names)
        assert shown.ends == dict.fromkeys(shown.order, "done")


class TestRefused:
    def test_more_than_any_node_has(self, small: Comparison, nodes: Any) -> None:
        with (
            Ray(nodes.address, cpus_per_run=2).opened() as carrier,
            pytest.raises(SettingError, match=r"--cpus-per-run 2: of the 2 nodes .* for ever"),
        ):
            carried_out(small, carrier)
        with (
            Ray(nodes.address, gpus_per_run=0.5).opened() as carrier,
            pytest.raises(SettingError, match=r"--gpus-per-run 0.5: of the 2 nodes .* for ever"),
        ):
            carried_out(small, carrier, device="auto")
