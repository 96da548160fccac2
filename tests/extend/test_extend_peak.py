"""The peak of a block's memory, and silence where the system cannot tell it."""

import mmap
from pathlib import Path

import pytest

from posenc.extend import peak

HELD = 80_000_000


def measured() -> float | None:
    # Of the system alone: what malloc kept of earlier tests would raise no mark.
    with peak.peak_memory() as found, mmap.mmap(-1, HELD) as held:
        for start in range(0, HELD, mmap.PAGESIZE):
            held[start] = 1
    return found.mb


def test_the_peak_is_what_was_held_at_most() -> None:
    found = measured()
    # None on a system without such a mark, whose ways are the tests below.
    assert found is None or 75 < found < 95


def test_a_mark_that_rises_and_falls_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peak, "CLEAR", tmp_path / "taken")
    # With the probe, set back, and after the block.
    marks = iter([116_384, 100_000, 180_000])
    monkeypatch.setattr(peak, "_kilobytes", lambda name: next(marks))
    assert measured() == 81.9


def test_a_mark_that_cannot_be_set_back_tells_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peak, "CLEAR", tmp_path / "taken")
    assert measured() is None
    monkeypatch.setattr(peak, "CLEAR", tmp_path / "no folder" / "refused")
    assert measured() is None


def test_a_mark_that_follows_what_is_held_tells_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = tmp_path / "status"
    status.write_text("VmHWM:\t  200000 kB\n")
    monkeypatch.setattr(peak, "STATUS", status)
    assert measured() is None
    status.write_text("Name:\tpython\n")
    assert measured() is None
    status.unlink()
    assert measured() is None
