"""What a results file says of how its run was started."""

import sys

import pytest

from posenc.bench.machine import HOLDING, command_line


def test_a_command_names_what_held_the_kernels_back(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in HOLDING:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "argv", ["/bin/posenc", "bench", "--only", "L = 512"])
    assert command_line() == "posenc bench --only 'L = 512'"
    monkeypatch.setenv("POSENC_NATIVE_ISA", "avx2")
    assert command_line() == "POSENC_NATIVE_ISA=avx2 posenc bench --only 'L = 512'"
