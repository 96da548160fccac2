"""What the machine's own tools promise: skips that CI refuses, set-up that says what it lacks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SKIPPED = """
import pytest

def test_runs():
    pass

@pytest.mark.xfail
def test_fails_as_expected():
    assert False

def test_lacks_something():
    pytest.skip({reason!r})
"""


def suite(folder: Path, reason: str, ci: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(SKIPPED.format(reason=reason))
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.skips", *options, str(folder)]
    # Neither the settings nor the workers of this run belong in the one that it starts.
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    return subprocess.run(
        [*command, "--rootdir", str(folder), "-c", os.devnull, "--noconftest"],
        cwd=ROOT,
        env=env | {"POSENC_CI": ci},
        capture_output=True,
        text=True,
    )


class TestSkips:
    @pytest.mark.parametrize("options", [(), ("-n", "1")])
    def test_one_that_is_not_listed_fails_under_ci(
        self, tmp_path: Path, options: tuple[str, ...]
    ) -> None:
        ended = suite(tmp_path, "no Chromium is installed", "1", *options)
        assert ended.returncode == pytest.ExitCode.TESTS_FAILED, ended.stdout
        assert "test_lacks_something: Skipped: no Chromium is installed" in ended.stdout
        assert "test_fails_as_expected:" not in ended.stdout

    def test_a_whole_file_that_skips_fails_under_ci(self, tmp_path: Path) -> None:
        (tmp_path / "test_other.py").write_text("import pytest\npytest.importorskip('no_such')\n")
        ended = suite(tmp_path, "flex takes no such table here", "1")
        assert ended.returncode == pytest.ExitCode.TESTS_FAILED, ended.stdout
        assert "could not import 'no_such'" in ended.stdout

    @pytest.mark.parametrize(
        ("reason", "ci"), [("flex takes no such table here", "1"), ("no Chromium", "")]
    )
    def test_one_that_is_listed_passes_and_any_does_elsewhere(
        self, tmp_path: Path, reason: str, ci: str
    ) -> None:
        ended = suite(tmp_path, reason, ci)
        assert ended.returncode == pytest.ExitCode.OK, ended.stdout


def run(command: list[str], **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | env, capture_output=True, text=True, check=False
    )


@pytest.mark.skipif(os.name == "nt", reason="needs bash")
class TestInstall:
    def test_what_is_there_is_not_installed(self) -> None:
        ended = run(["tools/install", "Nothing", "no-such-command bash", "no-such-package"])
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")

    def test_what_cannot_be_installed_is_said(self, tmp_path: Path) -> None:
        # No apt-get is on this path, nor sudo.
        (tmp_path / "bash").symlink_to("/bin/bash")
        (tmp_path / "env").symlink_to("/usr/bin/env")
        ended = run(["tools/install", "All is LOST", "no-such", "a", "b"], PATH=str(tmp_path))
        assert ended.returncode == 1
        assert ended.stderr == "*** All is LOST: there is no no-such (apt-get install a b)\n"


class TestKernels:
    @pytest.mark.parametrize(("ci", "code"), [("", 0), ("1", 1)])
    def test_missing_ones_are_loud(self, ci: str, code: int) -> None:
        ended = run([sys.executable, "tools/built_kernels.py"], POSENC_NATIVE="0", POSENC_CI=ci)
        assert ended.returncode == code
        assert ended.stderr.startswith("*** No C kernels: POSENC_NATIVE=0 turns")
