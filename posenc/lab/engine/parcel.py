"""Files of a run on their way: what it begins with, and what comes back while it goes.

A run on another machine works in a scratch folder of that machine. The driver, the process of the
command, is the one writer of the output folder, for a lock that holds on one machine need not hold
on a network file system, and a worker that was taken for dead may live on and write. What such a
worker sends is of an attempt that is over, and is not taken.

Small files travel in messages. Large ones do, too, where a worker does not see the output folder;
where it does, it puts them beside the run's own under a name that only its attempt has, and the
driver renames them.
"""

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from posenc.atomic_files import flush, replace_file
from posenc.lab.folder import CHECKPOINT, MANIFEST, RESULTS, WEIGHTS

LARGE = (CHECKPOINT, WEIGHTS)
# Read so, rows are never older than the checkpoint, nor weights than the rows that tell of them;
# written the other way round, that holds for whoever is killed in between.
ORDER = (CHECKPOINT, RESULTS, WEIGHTS, MANIFEST)
ARRIVING = ".arriving-"

Sent = bytes | Path | None
"""A whole file, where it lies in the output folder under its name of arrival, or that it is gone"""


@dataclass(frozen=True)
class Token:
    """A file that the driver has put into its folder: who finds it there sees the same folder."""

    out: Path
    name: str
    content: str

    def found(self) -> bool:
        try:
            return (self.out / self.name).read_text("ascii") == self.content
        except (OSError, ValueError):
            return False


@contextlib.contextmanager
def token(out: Path) -> Iterator[Token]:
    """A token in `out` as long as the block goes."""
    made = Token(out.resolve(), f".token-{secrets.token_hex(8)}", secrets.token_hex(16))
    path = made.out / made.name
    replace_file(path, made.content.encode())
    try:
        yield made
    finally:
        path.unlink(missing_ok=True)


@dataclass
class Outbox:
    """What has changed in the scratch folder of an attempt since it was last asked.

    beside  the run's folder in the output folder, where this machine sees it
    """

    folder: Path
    attempt: str
    beside: Path | None
    _known: dict[str, tuple[int, ...]] = field(default_factory=dict)
    _count: int = 0

    def skip(self) -> None:
        """What is there now came from the driver."""
        for path in self.folder.iterdir():
            self._known[path.name] = _state(path.stat())

    def changed(self) -> list[tuple[str, Sent]]:
        """Files in the order in which they are to be written."""
        found = [(name, self._read(name)) for name in ORDER]
        return [(name, sent[0]) for name, sent in reversed(found) if sent is not None]

    def _read(self, name: str) -> tuple[Sent] | None:
        """None where nothing is new."""
        try:
            with (self.folder / name).open("rb") as file:
                state = _state(os.fstat(file.fileno()))
                if state == self._known.get(name):
                    return None
                self._known[name] = state
                if name in LARGE and self.beside is not None:
                    self._count += 1
                    there = self.beside / f"{ARRIVING}{name}-{self.attempt}-{self._count}"
                    with there.open("wb") as copy:
                        shutil.copyfileobj(file, copy, 2**22)
                        flush(copy)
                    return (there,)
                data = file.read()
        except FileNotFoundError:
            return (None,) if self._known.pop(name, None) else None
        # A row that is being written is whole the next time.
        return (data[: data.rfind(b"\n") + 1] if name == RESULTS else data,)


def _state(status: os.stat_result) -> tuple[int, ...]:
    return status.st_ino, status.st_mtime_ns, status.st_size


def receive(folder: Path, files: Sequence[tuple[str, Sent]]) -> None:
    """Put what an attempt has sent into its run's folder, each file whole or not at all.

    Once more does no harm.
    """
    for name, sent in files:
        if sent is None:
            (folder / name).unlink(missing_ok=True)
        elif isinstance(sent, Path):
            with contextlib.suppress(FileNotFoundError):
                os.replace(sent, folder / name)
        else:
            replace_file(folder / name, sent)


def remove_arriving(folder: Path) -> None:
    """Remove what attempts that are over have left beside the run's own files."""
    for path in folder.glob(f"{ARRIVING}*"):
        path.unlink(missing_ok=True)
