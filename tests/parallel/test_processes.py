"""Ring attention and Ulysses in processes of their own, which talk by gloo."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from posenc import encodings
from posenc.testing.fixtures import attends
from tests.support.ring_processes import CASES

ROOT = Path(__file__).parents[2]
# Compared in float32.
CAPS = {"torch's own ring": 1e-5}


@pytest.mark.long
@pytest.mark.parametrize("size", [2, 4])
def test_processes_give_what_one_device_gives(size: int, tmp_path: Path) -> None:
    """Every case in one start of the processes; gradients of parameters are summed over ranks."""
    command = [sys.executable, "-m", "tests.support.ring_processes"]
    started = [
        subprocess.Popen(
            [*command, str(rank), str(size), str(tmp_path)],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    said = [process.communicate()[1] for process in started]
    assert all(process.returncode == 0 for process in started), said
    for rank in range(size):
        errors = json.loads((tmp_path / f"{rank}.json").read_text())
        assert errors.keys() >= {name for name, *_ in CASES}
        if size == 2:
            asked = {name.partition(" ")[0] for name in errors}
            every = encodings().items()
            assert asked >= {name for name, kind in every if any(map(attends, kind.examples()))}
        for name, error in errors.items():
            assert error <= CAPS.get(name, 1e-10), name
