"""The page's sources beside node's tests, in a folder of their own, with what these compare."""

import shutil
import subprocess
from pathlib import Path

import pytest

from posenc.explorer import bundle
from posenc.explorer.tables import tables
from tests.explorer import reference, strangers

TESTS = Path(__file__).parent


@pytest.fixture(scope="session")
def node() -> str:
    """Node 20 or newer; without it these tests have nothing to run in."""
    found = shutil.which("node")
    if found is None:
        pytest.skip("node is not installed: apt-get install nodejs")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=True)
    if int(version.stdout.lstrip("v").partition(".")[0]) < 20:
        pytest.skip(f"node {version.stdout.strip()} is too old: 20 is needed")
    return found


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
