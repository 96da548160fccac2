"""Files that appear whole or not at all, and what killed processes leave behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from posenc.atomic_files import replace_file, whole_file, whole_folder

KILLED = """
import os, signal, sys
from pathlib import Path
from posenc import atomic_files
with getattr(atomic_files, sys.argv[1])(Path(sys.argv[2])):
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no signal 0 to ask for a process")
@pytest.mark.parametrize("kind", ["whole_file", "whole_folder"])
def test_what_a_killed_process_left_is_removed_at_the_next_run(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.b"
    ended = subprocess.run([sys.executable, "-c", KILLED, kind, str(path)])
    assert ended.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    # One of a process that still runs, one of another machine, one of another file.
    kept = [
        left.with_name(left.name.replace(f".{left.suffixes[-2][1:]}.", f".{os.getppid()}.")),
        left.with_name(f".a.b.elsewhere.{left.suffixes[-2][1:]}.tmp"),
        left.with_name(left.name.replace(".a.b.", ".a-b.")),
    ]
    for other in kept:
        other.write_text("kept")
    replace_file(path, b"whole")
    assert sorted(tmp_path.iterdir()) == sorted([path, *kept])


def test_a_new_file_does_not_overwrite_what_appeared_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with pytest.raises(FileExistsError), whole_file(path, new=True):
        path.write_text("precious")
    assert path.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_does_not_replace_one_that_holds_something(tmp_path: Path) -> None:
    path, other = tmp_path / "a", tmp_path / "other"
    (other / "b").mkdir(parents=True)
    with pytest.raises(OSError), whole_folder(path):  # noqa: PT011 - its words differ by system
        other.rename(path)
    assert [each.name for each in path.iterdir()] == ["b"]
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_one(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    link.symlink_to(file)
    for data in (b"new", b"newer"):
        replace_file(link, data)
        assert (file.read_bytes(), link.is_symlink()) == (data, True)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pipes with names in folders")
def test_what_is_no_file_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        replace_file(pipe, b"told")
        assert os.read(reader, 9) == b"told"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
