"""A Triton that is too old for the kernels counts as none."""

import sys
from pathlib import Path

import pytest

from posenc import triton


@pytest.mark.parametrize("name", ["knobs.py", "runtime.py"])
def test_one_without_knobs_is_none(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "triton"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / name).touch()
    monkeypatch.syspath_prepend(tmp_path)
    # What is imported already has told where it is.
    monkeypatch.delitem(sys.modules, "triton", raising=False)
    assert triton.is_installed() == (name == "knobs.py")


def test_there_may_be_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton, "find_spec", lambda _: None)
    assert not triton.is_installed()
