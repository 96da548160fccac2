"""Temporary folders that carry the id of their process, so that a later one knows whose are left.

A process that is killed cannot remove its folders: whoever comes next does.
"""

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from multiprocessing.util import Finalize
from pathlib import Path

from posenc.atomic_files import replace_file
from posenc.errors import LabError
from posenc.lab.text import Corpus

# Systems take a hundred letters for the path of a socket, and our folders and names add 55.
LONGEST = 45


def own_prefix() -> str:
    return f"posenc-{os.getpid()}-"


def remove_leftovers() -> None:
    """Remove this user's folders of processes that are no more."""
    if os.name != "posix":
        return
    for folder in Path(tempfile.gettempdir()).glob("posenc-*-*"):
        named = re.fullmatch(r"posenc-(\d{1,9})-.*", folder.name)
        with contextlib.suppress(OSError):
            if named and folder.lstat().st_uid == os.getuid() and not _alive(int(named[1])):
                shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def text_file(corpus: Corpus | None) -> Iterator[Path]:
    """A file of the bytes to train on, then the bytes to test on, as long as it is needed."""
    with tempfile.TemporaryDirectory(prefix=own_prefix()) as folder:
        text = Path(folder, "text")
        try:
            replace_file(text, corpus.train + corpus.test if corpus else b"")
        except OSError as error:
            raise LabError(f"{text} cannot be written: {error.strerror}") from None
        yield text


@contextlib.contextmanager
def sockets_in_own_folder() -> Iterator[None]:
    """What multiprocessing puts into a temporary folder inside, it puts into one of ours."""
    if len(tempfile.gettempdir()) > LONGEST:
        yield
        return
    before = tempfile.tempdir
    folder = tempfile.mkdtemp(prefix=own_prefix())
    tempfile.tempdir = folder
    try:
        yield
    finally:
        tempfile.tempdir = before
        try:
            os.rmdir(folder)
        except OSError:
            # Needed as long as this process can start others; multiprocessing, whose own folder
            # inside goes at -100, comes first.
            Finalize(None, shutil.rmtree, (folder,), {"ignore_errors": True}, exitpriority=-200)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
