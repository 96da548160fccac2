"""The text to train and to test on: bytes of files, split so that no test byte is trained on.

The default is the source of Python's own standard library, which is on every machine that has
Python. Anything else is the user's: files and folders.
"""

import hashlib
import os
import platform
import stat
import sysconfig
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posenc.errors import LabError
from posenc.lab.records import holds_records, records

LARGEST = 2**30

# Tests and generated tables are not prose, other people's packages and this build's own paths
# differ between machines.
_LIBRARY_LEAVES_OUT = frozenset({
    "test", "tests", "idle_test", "site-packages", "dist-packages", "lib2to3", "encodings",
    "pydoc_data", "turtledemo", "__pycache__",
})  # fmt: skip
_MACHINE_PREFIXES = ("_sysconfigdata", "config-")


@dataclass(frozen=True)
class Corpus:
    """The bytes to train on, the bytes to test on, and what the manifest says of them."""

    train: bytes
    test: bytes
    summary: dict[str, Any]

    def shortened(self, train_bytes: int) -> "Corpus":
        """The first bytes of the training part alone, and the same test part.

        Raises LabError where the training part has fewer.
        """
        if not 0 < train_bytes <= len(self.train):
            raise LabError(
                f"train_bytes is {train_bytes}: the training part of this text has "
                f"{len(self.train)} bytes; ask for 1 to {len(self.train)} of them"
            )
        return _split(self.train[:train_bytes], self.test, self.summary)

    def require(self, train_length: int, longest: int, spans: int) -> None:
        """Raise LabError when a part is too short: one length to train on, `spans` to test on."""
        for part, size, needed in (
            ("training", len(self.train), train_length + 1),
            ("test", len(self.test), spans * longest + 1),
        ):
            if size < needed:
                raise LabError(
                    f"the text is too short: its {part} part has {size} bytes, and at least "
                    f"{needed} are needed for train length {train_length} and test length "
                    f"{longest}; give more text with --text, or shorter lengths"
                )


@dataclass(frozen=True)
class _File:
    name: str  # relative to what the user gave, with forward slashes
    data: bytes

    @property
    def order(self) -> bytes:
        return hashlib.sha256(os.fsencode(self.name)).digest()


def standard_library() -> Corpus:
    """The source files of the running Python's standard library, split by file."""
    root = Path(sysconfig.get_path("stdlib"))

    def wanted(name: str, is_folder: bool) -> bool:
        if name in _LIBRARY_LEAVES_OUT or name.startswith(_MACHINE_PREFIXES):
            return False
        return is_folder or name.endswith(".py")

    skipped: Counter[str] = Counter()
    files = list(_read_folder(root, skipped, wanted))
    if not files:
        raise LabError(
            f"this Python has no source of its standard library in {root}: name text with --text"
        )
    source = f"Python {platform.python_version()} standard library"
    return _corpus(source, [], files, skipped)


def read_text(paths: Sequence[Path]) -> Corpus:
    """The bytes of the given files, and of every file in the given folders.

    Folders are walked in sorted order; hidden and empty files, binary files (with a NUL byte) and
    links to folders inside them are left out. Of a folder of records (`posenc.lab.records`) each is
    a text of its own. Raises LabError when a path is missing, unreadable,
    empty, or itself a binary file.
    """
    skipped: Counter[str] = Counter()
    files: list[_File] = []
    for path in paths:
        try:
            mode = path.stat().st_mode
        except OSError as error:
            raise LabError(f"--text {path}: cannot be read ({error.strerror})") from None
        if stat.S_ISDIR(mode):
            if holds_records(path):
                found = list(_read_records(path, skipped))
            else:
                found = list(_read_folder(path, skipped, lambda name, _: not name.startswith(".")))
            if not found:
                raise LabError(f"--text {path}: the folder holds no text file{_listed(skipped)}")
            files += found
        elif stat.S_ISREG(mode):
            files.append(_read_given(path))
        else:
            raise LabError(f"--text {path}: it is neither a file nor a folder; save it to a file")
    return _corpus("text given with --text", [str(path) for path in paths], files, skipped)


def _read_given(path: Path) -> _File:
    try:
        if path.stat().st_size > LARGEST:
            raise LabError(_too_large())
        data = path.read_bytes()
    except OSError as error:
        raise LabError(f"--text {path}: cannot be read ({error.strerror})") from None
    if not data.strip():
        raise LabError(f"--text {path}: the file is empty")
    if b"\0" in data:
        raise LabError(f"--text {path}: the file is binary (it has a NUL byte); give plain text")
    return _File(path.name, data)


def _read_folder(
    root: Path, skipped: Counter[str], wanted: Callable[[str, bool], bool]
) -> Iterator[_File]:
    """Text files under `root` in sorted order; `wanted(name, is_folder)` chooses where to look."""

    def unreadable(_: OSError) -> None:
        skipped["unreadable"] += 1

    size = 0
    for folder, folders, names in os.walk(root, onerror=unreadable):
        folders[:] = sorted(name for name in folders if wanted(name, True))
        for name in sorted(name for name in names if wanted(name, False)):
            path = Path(folder, name)
            try:
                status = path.stat()
                if not stat.S_ISREG(status.st_mode):
                    skipped["not a file"] += 1
                    continue
                size += status.st_size
                if size > LARGEST:
                    raise LabError(_too_large())
                data = path.read_bytes()
            except OSError:
                skipped["unreadable"] += 1
                continue
            if not data.strip():
                skipped["empty"] += 1
            elif b"\0" in data:
                skipped["binary"] += 1
            else:
                yield _File(path.relative_to(root).as_posix(), data)


def _read_records(folder: Path, skipped: Counter[str]) -> Iterator[_File]:
    size = 0
    for name, text in records(folder):
        data = text.encode("utf-8", "replace")
        size += len(data)
        if size > LARGEST:
            raise LabError(_too_large())
        if text.strip():
            # Records are joined as files are, and would run into each other.
            yield _File(name, data if data.endswith(b"\n") else data + b"\n")
        else:
            skipped["empty"] += 1


def _corpus(source: str, paths: list[str], files: Sequence[_File], skipped: Counter[str]) -> Corpus:
    unique = list({hashlib.sha256(file.data).digest(): file for file in reversed(files)}.values())
    unique.reverse()
    if len(unique) < len(files):
        skipped["duplicate"] += len(files) - len(unique)

    chosen = _test_files(unique)
    if chosen:
        split = "by file: about a tenth of the bytes, in files chosen by the hash of their names"
        train = b"".join(unique[i].data for i in range(len(unique)) if i not in chosen)
        test = b"".join(unique[i].data for i in sorted(chosen))
    else:
        split = "the last tenth of each file, because the text cannot be split by file"
        cuts = [(file.data, len(file.data) - len(file.data) // 10) for file in unique]
        train = b"".join(data[:cut] for data, cut in cuts)
        test = b"".join(data[cut:] for data, cut in cuts)

    summary = {
        "source": source,
        "paths": paths,
        "files": len(unique),
        "bytes": len(train) + len(test),
        "test_files": len(chosen),
        "split": split,
        "skipped": dict(sorted(skipped.items())),
    }
    return _split(train, test, summary)


def _split(train: bytes, test: bytes, summary: dict[str, Any]) -> Corpus:
    digest = hashlib.sha256(f"{len(train)}:{len(test)}:".encode() + train + test).hexdigest()
    sizes = {"train_bytes": len(train), "test_bytes": len(test), "sha256": digest}
    return Corpus(train, test, summary | sizes)


def _test_files(files: Sequence[_File]) -> set[int]:
    """Indices of files with a tenth of the bytes; none when the files are too few or uneven."""
    total = sum(len(file.data) for file in files)
    chosen: set[int] = set()
    size = 0
    for index in sorted(range(len(files)), key=lambda index: files[index].order):
        grown = size + len(files[index].data)
        if size < total / 10 and grown <= total / 5:
            chosen.add(index)
            size = grown
    return chosen if size >= total / 20 else set()


def _too_large() -> str:
    return f"the text is larger than {LARGEST // 2**30} GiB: name fewer files with --text"


def _listed(skipped: Counter[str]) -> str:
    listed = ", ".join(f"{count} {reason}" for reason, count in sorted(skipped.items()))
    return f" (left out: {listed})" if listed else ""
