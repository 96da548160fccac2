"""Temporary folders of processes that were killed, and workers that outlive them."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from posenc.lab.leftovers import own_prefix, remove_leftovers, sockets_in_own_folder


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    # Short, for the path of a socket has its limit.
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def test_what_a_dead_process_left_is_removed_and_nothing_else(temporary: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    dead = temporary / f"posenc-{ended.pid}-abc"
    dead.mkdir()
    (dead / "text").write_text("a copy")
    kept = ["posenc-compare", f"posenc-{os.getppid()}-abc", f"{own_prefix()}abc", "posenc-x-1"]
    for name in kept:
        (temporary / name).mkdir()
    remove_leftovers()
    assert sorted(path.name for path in temporary.iterdir()) == sorted(kept)


def test_a_link_with_such_a_name_leads_nowhere(temporary: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (temporary / "precious").mkdir()
    (temporary / f"posenc-{ended.pid}-abc").symlink_to(temporary / "precious")
    remove_leftovers()
    assert (temporary / "precious").is_dir()


def test_temporary_folders_are_made_inside_one_of_ours(temporary: Path) -> None:
    with sockets_in_own_folder():
        inside = Path(tempfile.mkdtemp())
    assert inside.parent.name.startswith(own_prefix())
    assert inside.parent.parent == temporary
    assert tempfile.gettempdir() == str(temporary)
    # An empty one goes at once.
    with sockets_in_own_folder():
        pass
    assert list(temporary.iterdir()) == [inside.parent]


ORPHAN = """
import multiprocessing, os, signal, sys
from pathlib import Path

def work(folder):
    from posenc.lab.config import RunConfig
    from posenc.lab.run import Assignment, attempt

    multiprocessing.parent_process().join()
    config = RunConfig(encoding="none", settings="NoPE()", corpus="0")
    sizes = {"train_bytes": 1, "test_bytes": 1}
    ended, _ = attempt(Assignment(config, folder, folder / "text", sizes, 1), print)
    (folder / "ended").write_text(ended)

if __name__ == "__main__":
    multiprocessing.get_context("spawn").Process(target=work, args=(Path(sys.argv[1]),)).start()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_a_worker_whose_text_went_with_its_parent_records_no_failure(tmp_path: Path) -> None:
    program = tmp_path / "orphan.py"
    program.write_text(ORPHAN)
    # Ends when the worker does, which holds the other end of the pipe.
    ended = subprocess.run([sys.executable, program, tmp_path], capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL
    assert (tmp_path / "ended").read_text() == "stopped", ended.stderr
    assert not (tmp_path / "results.jsonl").exists()
