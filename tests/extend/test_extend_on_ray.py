"""Cells that workers of a cluster measure: the numbers of one process, whoever dies."""

import socket
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import ray
import torch
from ray_runs import cluster_of, kill_worker
from typer.testing import CliRunner

from posenc.commands.app import app
from posenc.errors import LabError, SettingError
from posenc.extend.cells import Cell
from posenc.extend.measuring import Row
from posenc.extend.on_ray import OnRay
from posenc.extend.options import Options
from posenc.extend.run import extend
from posenc.extend.work import Work
from posenc.lab.engine.ray import Ray
from tests.extend.test_extend_run import numbers

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        with cluster_of(2) as cluster:
            yield cluster


@pytest.fixture(autouse=True)
def disconnected() -> Iterator[None]:
    """A command connects once in its life."""
    yield
    ray.shutdown()


def test_another_model_on_a_worker_is_refused(options: Options, nodes: Any) -> None:
    def other(work: Work, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Row | str]]:
        subject = replace(work.subject, identity="of another")
        yield from OnRay(Ray(nodes.address))(replace(work, subject=subject), cells)

    with pytest.raises(LabError, match=r"cannot measure: .*is another model on"):
        extend(options, lambda line: None, other)
    with pytest.raises(SettingError, match=r"--cpus-per-run 2: of the 2 nodes .* for ever"):
        OnRay(Ray(nodes.address, cpus_per_run=2)).check()


def test_numbers_are_those_of_one_process_whoever_dies(
    options: Options,
    nodes: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    here = extend(replace(options, out=tmp_path / "here"), lambda line: None)
    torch.set_num_threads(threads)
    monkeypatch.setattr(Work, "measure", lambda *_: pytest.fail("it was measured here"))
    died = []

    def disturbed(work: Work, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Row | str]]:
        for number, found in enumerate(OnRay(Ray(nodes.address))(work, cells)):
            yield found
            if number == 1:
                died.append(kill_worker("Measurer"))
            if number == 4:
                nodes.remove_node(next(iter(nodes.worker_nodes)))
                died.append(True)

    away = extend(options, lambda line: None, disturbed)
    assert died == [True, True]
    assert not away.failed
    assert away.data["done"] == away.data["planned"]
    assert numbers(away.data) == numbers(here.data)
    # What Ray says of the dead is not among what --json prints.
    assert not capsys.readouterr().out


def test_nobody_answers(folder: Path, text: Path, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        asked = ["extend", str(folder), "--text", str(text), "--out", str(tmp_path / "out")]
        ended = CliRunner().invoke(app, [*asked, "--engine", "ray", "--address", address])
    assert ended.exit_code == 2
    assert f"nobody answers at {address}" in ended.stderr
    assert not (tmp_path / "out").exists()
