"""The output folder: what survives a kill, a full disk, and damage."""

import errno
import json
import logging
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lab_runs import runs_of

from posenc.atomic_files import replace_file, write_json
from posenc.errors import LabError, SettingError
from posenc.lab import folder as module
from posenc.lab.config import RunConfig
from posenc.lab.folder import (
    CORRUPT,
    MANIFEST,
    RESULTS,
    append_row,
    locked,
    read_rows,
)

ROWS = [
    {"kind": "train", "step": 20, "loss": 3.5},
    {"kind": "loss", "protocol": "windows", "length": 64, "loss": 2.25},
    {"kind": "done", "seconds": 1.5},
]


def written(path: Path, rows: list[dict[str, Any]]) -> bytes:
    for row in rows:
        append_row(path, row)
    return path.read_bytes() if rows else b""


def make_run(out: Path, config: RunConfig, rows: list[dict[str, Any]]) -> Path:
    folder = out / "runs" / config.name
    folder.mkdir(parents=True)
    write_json(folder / MANIFEST, {"config": config.to_json(), "started": "now"})
    written(folder / RESULTS, rows)
    return folder


class TestConfig:
    def test_the_id_is_that_of_the_values(self) -> None:
        config = RunConfig("rotary", seed=1)
        assert config.run_id == RunConfig("rotary", seed=1).run_id
        assert len(config.run_id) == 12
        others = [
            replace(config, seed=2),
            replace(config, encoding="alibi"),
            replace(config, settings="Rotary(dim=32)"),
            replace(config, corpus="f" * 64),
            replace(config, steps=None, minutes=1.0),
            replace(config, test_lengths=(64,)),
            replace(config, version=config.version + 1),
        ]
        assert len({config.run_id, *(other.run_id for other in others)}) == 1 + len(others)

    def test_the_name_is_safe_on_every_file_system(self) -> None:
        config = RunConfig("my.package:Own/Class", seed=3)
        assert config.name == f"my.package_Own_Class-s3-{config.run_id}"

    def test_json_returns_the_same(self) -> None:
        config = RunConfig("rotary", test_lengths=(64, 100), minutes=0.5, steps=None)
        assert RunConfig.from_json(json.loads(json.dumps(config.to_json()))) == config

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ({"train_length": 7}, "at least 8"),
            ({"test_lengths": (1, 64)}, "at least 2"),
            ({"test_lengths": ()}, "at least one"),
            ({"dim": 30, "heads": 4}, "dim=30 is not divisible by heads=4"),
            ({"heads": 0}, "heads is 0"),
            ({"depth": -1}, "depth is -1"),
            ({"batch": 0}, "batch is 0"),
            ({"steps": 0}, "steps is 0"),
            ({"steps": None}, "exactly one"),
            ({"minutes": 1.0}, "exactly one"),
            ({"steps": None, "minutes": float("nan")}, "minutes is nan"),
            ({"steps": None, "minutes": -1.0}, "minutes is -1"),
            ({"learning_rate": 0.0}, "learning rate"),
        ],
    )
    def test_values_that_contradict_each_other_are_refused(
        self, values: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(SettingError, match=message):
            RunConfig("rotary", **values)


class TestRows:
    def test_what_is_appended_is_read(self, tmp_path: Path) -> None:
        written(tmp_path / RESULTS, ROWS)
        assert read_rows(tmp_path / RESULTS) == (ROWS, [])

    def test_no_file_is_no_rows(self, tmp_path: Path) -> None:
        assert read_rows(tmp_path / RESULTS) == ([], [])

    def test_a_kill_at_every_byte_of_a_write_loses_that_row_at_most(self, tmp_path: Path) -> None:
        path = tmp_path / RESULTS
        before = len(written(path, ROWS[:2]))
        data = written(path, ROWS[2:])
        for size in range(before, len(data)):
            path.write_bytes(data[:size])
            (tmp_path / CORRUPT).unlink(missing_ok=True)
            rows, problems = read_rows(path)
            whole = size == len(data) - 1
            assert rows == (ROWS if whole else ROWS[:2])
            torn = data[before:size]
            assert bool(problems) == bool(torn and not whole)
            if problems:
                assert "line 3" in problems[0]
                assert (tmp_path / CORRUPT).read_bytes() == torn + b"\n"
            append_row(path, {"kind": "train", "step": 99})
            assert read_rows(path)[0] == [*rows, {"kind": "train", "step": 99}]

    @pytest.mark.parametrize(
        "line",
        [
            b"\xff\xfe",
            b"[1, 2]",
            b"12",
            b'{"kind": 3}',
            b'{"no": "kind"}',
            b'{"kind": "loss", "loss": NaN}',
            b"[" * 100_000,
        ],
        ids=["bytes", "list", "number", "kind", "no kind", "NaN", "deep"],
    )
    def test_a_corrupt_line_is_kept_aside_and_the_rest_is_used(
        self, tmp_path: Path, line: bytes
    ) -> None:
        path = tmp_path / RESULTS
        lines = written(path, ROWS).splitlines()
        path.write_bytes(b"\n".join([lines[0], line, *lines[1:]]) + b"\n")
        rows, problems = read_rows(path)
        assert rows == ROWS
        assert "line 2" in problems[0]
        assert (tmp_path / CORRUPT).read_bytes() == line + b"\n"
        again, remembered = read_rows(path)
        assert again == ROWS
        assert "1 corrupt line" in remembered[0]

    def test_a_full_disk_leaves_the_file_as_it_was(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / RESULTS
        before = written(path, ROWS[:2])

        def full(handle: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        # The system's own error names no file.
        with pytest.raises(OSError, match=f"No space left on device: '{path}'"):
            append_row(path, ROWS[2])
        with pytest.raises(OSError, match=f"No space left on device: '{path}'"):
            replace_file(path, b"something else")
        assert path.read_bytes() == before
        assert list(tmp_path.iterdir()) == [path]

    def test_what_json_cannot_say_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="JSON"):
            append_row(tmp_path / RESULTS, {"kind": "loss", "loss": float("nan")})

    def test_a_replaced_file_is_the_old_one_until_it_is_the_new_one(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "file"
        replace_file(path, b"old")

        def killed(*_: object) -> None:
            assert path.read_bytes() == b"old"
            raise KeyboardInterrupt

        monkeypatch.setattr(os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            replace_file(path, b"new")
        assert path.read_bytes() == b"old"


class TestRuns:
    @pytest.mark.parametrize(
        ("rows", "state"),
        [
            ([], "unfinished"),
            (ROWS[:2], "unfinished"),
            (ROWS, "done"),
            ([{"kind": "failed", "error": "it"}], "failed"),
            ([{"kind": "failed", "error": "it"}, ROWS[0]], "unfinished"),
        ],
    )
    def test_the_last_row_tells_the_state(
        self, tmp_path: Path, rows: list[dict[str, Any]], state: str
    ) -> None:
        folder = make_run(tmp_path, RunConfig("rotary"), rows)
        (run,) = runs_of(tmp_path)
        assert (run.path, run.state, run.rows) == (folder, state, rows)
        assert run.config == RunConfig("rotary")
        assert run.manifest["started"] == "now"

    @pytest.mark.parametrize(
        "manifest", [b"", b"{}", b"[]", b'{"config": {"encoding": "rotary", "no": 1}}', b"\xff"]
    )
    def test_a_run_without_a_usable_manifest_is_left_out_and_logged(
        self, tmp_path: Path, manifest: bytes, caplog: pytest.LogCaptureFixture
    ) -> None:
        make_run(tmp_path, RunConfig("rotary"), ROWS)
        damaged = make_run(tmp_path, RunConfig("alibi"), ROWS)
        (damaged / MANIFEST).write_bytes(manifest)
        with caplog.at_level(logging.WARNING):
            runs = runs_of(tmp_path)
        assert [run.config.encoding for run in runs] == ["rotary"]
        assert str(damaged) in caplog.text

    def test_an_empty_folder_has_no_runs(self, tmp_path: Path) -> None:
        assert runs_of(tmp_path) == []


class TestLock:
    def test_another_process_is_kept_out_until_this_one_is_done(self, tmp_path: Path) -> None:
        pytest.importorskip("fcntl")
        program = (
            "import sys; from pathlib import Path; from posenc.lab.folder import locked\n"
            "with locked(Path(sys.argv[1]), wait=False): print('inside')"
        )
        command = [sys.executable, "-c", program, str(tmp_path)]
        with locked(tmp_path, wait=False):
            refused = subprocess.run(command, capture_output=True, text=True, cwd=os.getcwd())
        assert "another posenc works in" in refused.stderr
        allowed = subprocess.run(command, capture_output=True, text=True, cwd=os.getcwd())
        assert allowed.stdout == "inside\n"

    def test_a_lock_held_here_is_refused_too(self, tmp_path: Path) -> None:
        pytest.importorskip("fcntl")
        with (
            locked(tmp_path, wait=False),
            pytest.raises(LabError, match="choose another folder"),
            locked(tmp_path, wait=False),
        ):
            pass


def test_the_names_of_files_are_those_of_the_contract() -> None:
    assert module.WEIGHTS == "weights.safetensors"
    assert (MANIFEST, RESULTS, CORRUPT) == (
        "manifest.json",
        "results.jsonl",
        "results.corrupt.jsonl",
    )
