"""Texts that lie as records in a folder: parquet or JSON lines, or what datasets saved there."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from posenc.errors import LabError, installing

# What `datasets` writes beside the records that it saves.
SAVED = ("dataset_dict.json", "state.json")
KINDS = (".jsonl", ".parquet")
COLUMN = "text"


def holds_records(folder: Path) -> bool:
    """Whether `datasets` saved it, or all files in it are parquet or JSON lines."""
    if any((folder / name).is_file() for name in SAVED):
        return True
    files = [path for path in folder.iterdir() if not path.name.startswith(".")]
    return bool(files) and all(path.suffix in KINDS for path in files)


def records(folder: Path) -> Iterator[tuple[str, str]]:
    """The text of each record, under a name of its own; JSON lines need no other package.

    Raises LabError where a record has no text, or `datasets` is missing.
    """
    if any((folder / name).is_file() for name in SAVED):
        loaded = _datasets(folder).load_from_disk(str(folder))
        for split, rows in loaded.items() if hasattr(loaded, "items") else [("", loaded)]:
            yield from _named(folder, split, rows)
        return
    for path in sorted(folder.iterdir()):
        if path.suffix == ".parquet":
            rows = _datasets(folder).load_dataset("parquet", data_files=str(path), split="train")
            yield from _named(folder, path.name, rows)
        elif path.suffix == ".jsonl":
            yield from _named(folder, path.name, _lines(path))


def _lines(path: Path) -> Iterator[Any]:
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                yield json.loads(line)
            except ValueError as error:
                raise LabError(f"--text {path}: line {number} is not JSON: {error}") from None


def _named(folder: Path, part: str, rows: Any) -> Iterator[tuple[str, str]]:
    for number, row in enumerate(rows):
        text = row.get(COLUMN) if isinstance(row, dict) else None
        if not isinstance(text, str):
            keys = f", only {', '.join(row)}" if isinstance(row, dict) else ""
            raise LabError(
                f"--text {folder}: record {number} of {part or 'it'} has no {COLUMN!r} that is a "
                f"text{keys}; rename the column that holds it"
            )
        yield f"{part}/{number}", text


def _datasets(folder: Path) -> Any:
    try:
        import datasets
    except ImportError:
        raise LabError(
            f"--text {folder}: parquet and saved data are read by datasets, which is not "
            f"installed: {installing('data')}; JSON lines need nothing"
        ) from None
    return datasets
