"""The output folder: files that are whole or absent, rows that survive a kill, and their reader.

    <out>/runs/<name>/manifest.json            what was run, on what
    <out>/runs/<name>/results.jsonl            one JSON object a line, only ever appended
    <out>/runs/<name>/results.corrupt.jsonl    lines that could not be read, kept aside
    <out>/runs/<name>/weights.safetensors      the trained model
    <out>/runs/<name>/checkpoint.safetensors   only while the run is unfinished

What a row may hold stands in `rows`. What is read from here is checked here, and nowhere else.
"""

import contextlib
import json
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from posenc.atomic_files import flush, named, replace_file
from posenc.errors import LabError, PosencError
from posenc.lab.config import RunConfig
from posenc.lab.rows import check_plain, parse_row

MANIFEST = "manifest.json"
RESULTS = "results.jsonl"
CORRUPT = "results.corrupt.jsonl"
WEIGHTS = "weights.safetensors"
CHECKPOINT = "checkpoint.safetensors"

log = logging.getLogger("posenc.lab")


@dataclass(frozen=True)
class Run:
    """One run folder as it stands on the disk."""

    path: Path
    config: RunConfig
    manifest: dict[str, Any]
    rows: list[dict[str, Any]]
    state: Literal["done", "failed", "unfinished"]
    problems: list[str]


def read_run(folder: Path) -> Run | None:
    """The run in `folder`; None, and a line in the log, when its manifest cannot be used."""
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        check_plain(manifest)
        config = RunConfig.from_json(manifest["config"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, RecursionError, PosencError) as error:
        log.warning("%s is left out: its manifest cannot be used (%s)", folder, error)
        return None
    rows, problems = read_rows(folder / RESULTS)
    last = rows[-1]["kind"] if rows else None
    state = last if last in ("done", "failed") else "unfinished"
    return Run(folder, config, manifest, rows, state, problems)


def read_rows(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows of a results file, and one sentence for each line that was not a row.

    Such lines, torn by a kill or changed since, move to `results.corrupt.jsonl` beside the file, so
    that the next row starts on a line of its own.
    """
    aside = path.with_name(CORRUPT)
    problems = []
    if aside.exists():
        count = aside.read_bytes().count(b"\n")
        problems.append(f"{count} corrupt line(s) of {path} were kept aside in {aside.name}")
    if not path.exists():
        return [], problems

    data = path.read_bytes()
    rows: list[dict[str, Any]] = []
    good: list[bytes] = []
    bad: list[bytes] = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            rows.append(parse_row(line))
            good.append(line)
        except ValueError as error:
            bad.append(line)
            problems.append(
                f"line {number} of {path} is not a row ({error}) and was moved to {aside.name}"
            )
    if bad:
        with named(aside), aside.open("ab") as file:
            file.write(b"".join(line + b"\n" for line in bad))
            flush(file)
    if bad or not data.endswith(b"\n"):
        replace_file(path, b"".join(line + b"\n" for line in good))
    return rows, problems


def is_complete(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a run came to its end and lost no row since, by how many its `done` row counts.

    Those of earlier versions count none.
    """
    last = rows[-1] if rows else {"kind": ""}
    return last["kind"] == "done" and last.get("rows", 0) < len(rows)


def append_row(path: Path, row: dict[str, Any]) -> None:
    """Add one row, on the disk when this returns; OSError leaves the file as it was."""
    line = json.dumps(row, allow_nan=False).encode() + b"\n"
    with named(path), path.open("ab", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        try:
            written = file.write(line)
            if written != len(line):
                file.write(line[written:])
            os.fsync(file.fileno())
        except OSError:
            with contextlib.suppress(OSError):
                file.truncate(size)
            raise


def make_folder(out: Path, inside: str = "") -> None:
    """Make a folder of results, and one inside it; LabError where nothing can be written there."""
    try:
        (out / inside).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise LabError(
            f"--out {out}: results cannot be written there ({error.strerror}); choose another "
            "folder with --out"
        ) from None


@contextlib.contextmanager
def locked(folder: Path, *, wait: bool) -> Iterator[None]:
    """Keep other processes out of `folder`; the system lifts the lock when this process ends.

    Raises LabError when another process has it and `wait` is False. Without `fcntl` (Windows)
    nothing is locked.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    with (folder / ".lock").open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise LabError(
                f"another posenc works in {folder}: wait until it ends, or choose another folder"
            ) from None
        yield
