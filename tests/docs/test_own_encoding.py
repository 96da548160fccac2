"""The example of the page on writing an encoding passes what the page tells to run on it."""

import importlib.util
import sys
from pathlib import Path

import pytest

from posenc.testing import check_encoding
from tests.support.pages import DOCS, blocks


@pytest.mark.graph
def test_the_example_passes_the_check_suite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "near.py"
    path.write_text(blocks(DOCS / "en" / "howto" / "own_encoding.md")[0], "utf-8")
    spec = importlib.util.spec_from_file_location("near", path)
    near = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "near", near)
    spec.loader.exec_module(near)
    check_encoding(near.Near(4))
