"""Fixtures of programs that some tests run, which `make test` installs where it may."""

import shutil
import subprocess

import pytest

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")


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
def chromium() -> str:
    found = next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if found is None:
        pytest.skip("no Chromium is installed: apt-get install chromium")
    return found
