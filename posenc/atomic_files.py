"""Files that appear whole or not at all."""

import contextlib
import errno
import json
import os
import re
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

# There is no room on the disk, or in a user's share of it; or no more in one file.
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
_NO_ROOM = (*DISK_FULL, errno.EFBIG)


@contextlib.contextmanager
def named(path: Path) -> Iterator[None]:
    """An OSError that says there is no room for `path` names it, which the system's do not."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_ROOM:
            error.filename = str(path)
        raise


@contextlib.contextmanager
def whole_file(path: Path, *, new: bool = False) -> Iterator[IO[bytes]]:
    """A file to write in a stream: it becomes `path` where the block ends well, else nothing does.

    The old content of `path` stays until the new one is on the disk. With `new` there must be none:
    raises FileExistsError where somebody made one meanwhile. A link stays one, and what is no file,
    as /dev/stdout, is written to at once.
    """
    path = Path(os.path.realpath(path))
    if not new and path.exists() and not path.is_file():
        with path.open("wb") as stream:
            yield stream
        return
    temporary = _beside(path)
    try:
        with named(path), temporary.open("wb") as file:
            yield file
            flush(file)
        if new:
            # A rename would overwrite what has appeared since; every system can create exclusively.
            path.open("xb").close()
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(path.parent)


@contextlib.contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A folder to fill: it becomes `path`, which must not exist, where the block ends well."""
    temporary = _beside(path)
    try:
        temporary.mkdir()
        yield temporary
        # Fails where `path` has become a file, or a folder that holds anything.
        os.replace(temporary, path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    _sync_folder(path.parent)


def replace_file(path: Path, data: bytes) -> None:
    """Write `path` whole or not at all: the old content stays until the new one is on the disk."""
    with whole_file(path) as file:
        file.write(data)


def write_json(path: Path, value: Any) -> None:
    """Write `value` as readable JSON, whole or not at all."""
    replace_file(path, json.dumps(value, indent=2, allow_nan=False).encode() + b"\n")


def flush(file: IO[bytes]) -> None:
    """Bring what was written to the disk."""
    file.flush()
    os.fsync(file.fileno())


def _beside(path: Path) -> Path:
    """A name for what is not whole yet; what killed processes left of `path` is removed."""
    host = re.sub(r"\W", "-", socket.gethostname())
    leftover = re.compile(rf"{re.escape(f'.{path.name}.{host}.')}(\d+)\.tmp")
    with contextlib.suppress(OSError):
        for other in path.parent.iterdir():
            match = leftover.fullmatch(other.name)
            if match and not _runs(int(match[1])):
                shutil.rmtree(other, ignore_errors=True)
                other.unlink(missing_ok=True)
    # A rename is whole or nothing only within one file system.
    return path.with_name(f".{path.name}.{host}.{os.getpid()}.tmp")


def _runs(process: int) -> bool:
    # Windows has no signal 0, and os.kill would end the process.
    if os.name == "nt" or process == os.getpid():
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass
    return True


def _sync_folder(folder: Path) -> None:
    # The rename itself reaches the disk with the folder; Windows cannot open one.
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
