"""The page's sources beside node's tests, in a folder of their own, with what these compare."""

import shutil
from pathlib import Path

import pytest

from posenc.explorer import bundle
from posenc.explorer.tables import tables
from tests.explorer import reference, strangers

TESTS = Path(__file__).parent


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Node's tests beside the sources of a page that shows strangers by their tables, too."""
    root = tmp_path_factory.mktemp("workshop")
    shutil.copytree(bundle.SOURCE, root / "posenc" / "explorer")
    folder = root / "tests" / "explorer"
    folder.mkdir(parents=True)
    for path in TESTS.glob("*.mjs"):
        shutil.copy(path, folder)
    members = bundle.own_members() | tables(strangers.ALL)
    (root / "posenc" / "explorer" / bundle.MEMBERS).write_text(bundle.data(members))
    return folder


@pytest.fixture(scope="session")
def compared(workshop: Path, node: str) -> Path:
    """The same, with the numbers of the library."""
    reference.write(workshop)
    return workshop
