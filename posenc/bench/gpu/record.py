"""The record: rows in a JSON file, which is written after each of them."""

import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import posenc
from posenc.atomic_files import write_json
from posenc.bench.gpu.row import Found, Row, Step
from posenc.errors import SettingError

VERSION = 1


class Record:
    """What was found, by step and row.

    A row says of which source and card it is, so that one record can hold several hours; a row of
    another source or card is made again. Raises SettingError for a file that is no record.
    """

    def __init__(self, path: Path, machine: dict[str, Any]) -> None:
        self.path, self.source, self.card = path, source(), machine["gpu"]
        self.data = _read(path) or {"version": VERSION, "machines": {}, "steps": {}}
        self.data["machines"][self.card] = machine
        # Now, not when the first row is measured and would be lost.
        path.parent.mkdir(parents=True, exist_ok=True)

    def left(self, step: Step, rows: list[Row]) -> list[Row]:
        """Those of its rows that are not known yet, or failed."""
        known = self.data["steps"].get(step.name, {})
        return [row for row in rows if not self._holds(known.get(row.name))]

    def add(self, step: Step, row: Row, found: Found) -> None:
        about = {"source": self.source, "card": self.card, "when": _now()}
        self.data["steps"].setdefault(step.name, {})[row.name] = about | found
        write_json(self.path, self.data)

    def rows(self) -> Iterator[tuple[str, str, Found]]:
        """Step, name and what was found, of this source on this card."""
        for step, rows in self.data["steps"].items():
            for name, found in rows.items():
                if (found["source"], found["card"]) == (self.source, self.card):
                    yield step, name, found

    def _holds(self, found: Found | None) -> bool:
        if found is None or "failed" in found:
            return False
        return (found["source"], found["card"]) == (self.source, self.card)


def source() -> str:
    """The first 12 hex digits of the sha256 of posenc's own modules, by which a checkout is told.

    A copy of a checkout need not have its history.
    """
    root = Path(posenc.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def _read(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        data = json.loads(path.read_text())
        if data["version"] == VERSION and isinstance(data["steps"], dict):
            return data
    except (ValueError, KeyError, TypeError):
        pass
    raise SettingError(
        f"--out {path}: the file is there and is no record of version {VERSION}; name another, or "
        "move it away"
    )


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
