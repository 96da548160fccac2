"""What CONTRIBUTING.md says of adding an encoding is all that there is to do."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import posenc as pe
from posenc.testing import check_encoding
from tests.support.copies import hide_the_install

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
(EXAMPLE,) = re.findall(r"   ```python\n(.*?)   ```", PAGE, flags=re.DOTALL)
(LINE,) = re.findall(r"^   `(from posenc\.encodings\.\w+ import .*)`$", PAGE, flags=re.MULTILINE)
(CHECK,) = re.findall(r"Run `posenc (check .*?)`", PAGE)
# Whatever reads all encodings: pages, pictures, tables, the page's arithmetic, public names.
CONCERNED = (
    "tests/docs/test_catalogue.py",
    "tests/docs/test_docs.py",
    "tests/explorer",
    "tests/spine/test_exports.py",
    "tests/commands/test_cli.py::TestList",
    "tests/commands/test_setting_types.py",
    "tests/commands/test_show.py",
    "tests/commands/test_sketch.py",
)
# Of those, what depends on no encoding and waits for processes of its own, and types of settings
# of the others.
UNCONCERNED = (
    "pictures or install or loads or compiler or star_import or is_a_package or terminal or configs"
    " or waits_for_torch or (setting_types and not uniform)"
)


@pytest.fixture
def example(tmp_path, monkeypatch):
    (tmp_path / "newcomer.py").write_text(textwrap.dedent(EXAMPLE))
    monkeypatch.syspath_prepend(tmp_path)
    yield "newcomer:Uniform"
    sys.modules.pop("newcomer", None)


@pytest.mark.graph
def test_the_example_passes_the_suite(example):
    made = pe.make(example, model_dim=32, heads=4)
    assert repr(made) == "Uniform(heads=4, slope=0.1)"
    check_encoding(made)


@pytest.fixture
def checkout(tmp_path):
    """The repository's files in a folder of their own, with the encoding added as the page says."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    kernels = [path.relative_to(ROOT) for path in ROOT.glob("posenc/native/_kernels.*")]
    for name in {*filter(None, listed.stdout.split("\0")), *map(str, kernels)}:
        if (ROOT / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / name)
    hide_the_install(tmp_path)
    encodings = tmp_path / "posenc" / "encodings"
    (encodings / "uniform.py").write_text(textwrap.dedent(EXAMPLE))
    listing = encodings / "_all.py"
    head, last, tail = listing.read_text().rpartition("import XPos as XPos\n")
    listing.write_text(f"{head}{last}{LINE}\n{tail}")
    return tmp_path


# Its tests check shapes where they are to be checked; to check them here, too, shows nothing new.
@pytest.mark.long
def test_one_file_and_one_line_are_all_that_an_encoding_needs(checkout):
    def run(*command: str) -> str:
        ended = subprocess.run(
            [sys.executable, *command],
            cwd=checkout,
            env=os.environ | {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
        )
        assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-2000:]
        return ended.stdout

    cli = ("-c", "from posenc.cli import main; main()")
    assert "Uniform" in run(*cli, *CHECK.split())
    tables = "import sys; sys.path.append('tools'); import catalogue\n"
    tables += "print(catalogue.table('en'), catalogue.table('zh'))"
    assert run("-c", tables).count("`uniform`") == 2
    page = checkout / "page.html"
    run(*cli, "explore", "--no-open", "--out", str(page))
    assert "Uniform" in page.read_text("utf-8")
    run("-m", "pytest", "-x", "-p", "no:cacheprovider", "-m", "not long and not graph",
        "-k", f"not ({UNCONCERNED})", *CONCERNED)  # fmt: skip
