"""`torchrun -m posenc.lab.train CONFIG`: what it is given, what it leaves, what it refuses."""

import json
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import run
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from posenc.lab import evaluate
from posenc.lab.folder import RESULTS, read_rows, read_run
from posenc.lab.train.__main__ import app

GIVEN = {
    "encoding": "alibi(learned=True)",
    "size": "30k",
    "train_length": 16,
    "test_lengths": [32],
    "batch": 5,
    "steps": 10,
    "spans": 2,
}
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """The command is made for a process of its own, whose threads and signals it settles."""
    threads = torch.get_num_threads()
    handlers = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    yield
    torch.set_num_threads(threads)
    for one, handler in handlers.items():
        signal.signal(one, handler)


def ran(folder: Path, given: Any, *options: str) -> tuple[int, str]:
    """In this process alone; its exit code, and what it says on stderr."""
    config = folder / "config.json"
    config.write_text(given if isinstance(given, str) else json.dumps(given))
    result = CliRunner().invoke(app, [str(config), *options], catch_exceptions=False)
    return result.exit_code, result.stderr


def losses(out: Path) -> tuple[str, list[tuple[Any, ...]], list[float]]:
    (folder,) = (out / "runs").iterdir()
    rows, _ = read_rows(folder / RESULTS)
    rows = [row for row in rows if isinstance(row.get("loss"), float)]
    kinds = [(row["kind"], row.get("step"), row.get("protocol"), row.get("length")) for row in rows]
    return folder.name, kinds, [row["loss"] for row in rows]


@pytest.mark.long
def test_two_processes_leave_the_run_that_one_leaves(tmp_path: Path, text: Path) -> None:
    given = GIVEN | {"how": {"text": [str(text)], "out": str(tmp_path / "one")}}
    assert ran(tmp_path, given)[0] == 0
    options = ("--out", str(tmp_path / "two"), "--parallel", "fsdp", "--accumulate", "2")
    command = (*TORCHRUN, "-m", "posenc.lab.train", str(tmp_path / "config.json"), *options)
    found = run(command, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    name, kinds, alone = losses(tmp_path / "one")
    # The same run: how it is carried out is no part of it.
    assert losses(tmp_path / "two")[:2] == (name, kinds)
    assert [kind for kind, *_ in kinds] == ["train"] * 10 + ["loss"] * 4
    assert losses(tmp_path / "two")[2] == pytest.approx(alone, rel=1e-6)
    shared = read_run(tmp_path / "two" / "runs" / name)
    assert shared is not None
    assert shared.state == "done"
    assert shared.manifest["hardware"]["processes"] == 2
    # What it left says all that is needed to do it once more.
    again = shared.path / "manifest.json"
    options = ("--out", str(tmp_path / "again"), "--text", str(text))
    assert CliRunner().invoke(app, [str(again), *options]).exit_code == 0
    assert losses(tmp_path / "again")[0] == name


def test_shares_of_a_model_are_read_again_and_again_in_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Several batches, between which shares are gathered and let go, before and after a step.
    monkeypatch.setattr(evaluate, "TOKENS_AT_ONCE", 64)
    how = {"parallel": "fsdp", "out": str(tmp_path / "out")}
    given = GIVEN | {"task": "flip_flop", "solved": 0.001, "spans": 9, "how": how}
    for precision in ("float32", "bfloat16"):
        assert ran(tmp_path, given | {"precision": precision})[0] == 0
    runs = [read_run(folder) for folder in (tmp_path / "out" / "runs").iterdir()]
    assert [run.state for run in runs if run] == ["done"] * 2


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ("{", "config.json is no JSON"),
        ("[1]", "holds a list: an object of settings is needed"),
        ({"steps": 3}, "it names no encoding"),
        (GIVEN | {"stepps": 3}, "no setting is called 'stepps': did you mean 'steps'"),
        (GIVEN | {"batch": "5"}, "batch is '5', and int is needed"),
        (GIVEN | {"test_lengths": 32}, "test_lengths is 32, and a list is needed"),
        (GIVEN | {"encoding": "rotory"}, "rotory.*rotary"),
        (GIVEN | {"size": "31k"}, "31k"),
        (GIVEN | {"dim": 8}, "size says dim already"),
        (GIVEN | {"seed": 1000, "test_lengths": [16]}, "look for a learning rate are called so"),
        (GIVEN | {"positions": "random(longest=64)"}, "tests of texts count them"),
        (GIVEN | {"how": {"parallel": "tp"}}, "parallel is 'tp': it is 'ddp' or 'fsdp'"),
        (GIVEN | {"how": {"shards": 2}}, "shards=2: only parallel='fsdp'"),
        (GIVEN | {"how": {"parallel": "fsdp", "shards": 2}}, "shards is 2: it must divide"),
        (GIVEN | {"how": {"accumulate": 6}}, "batch is 5, but 1 processes .* 6 parts"),
        (GIVEN | {"how": 3}, "'how' is a int"),
        (GIVEN | {"corpus": "0" * 64}, "reads a text of sha256 000000000000"),
        ({"config": GIVEN | {"settings": "ALiBi(heads=8)"}}, "leave settings out"),
    ],
)
def test_what_it_refuses(tmp_path: Path, text: Path, given: Any, wrong: str) -> None:
    options = ("--out", str(tmp_path / "out"), "--text", str(text))
    code, said = ran(tmp_path, given, *options)
    assert code == 2
    assert re.search(wrong, said), said
    assert not (tmp_path / "out").exists()


def test_a_missing_config(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, [str(tmp_path / "none.json")])
    assert result.exit_code == 2
    assert "none.json: cannot be read" in result.stderr
