"""The worked example of CONTRIBUTING.md works as a newcomer would use it."""

import re
import sys
import textwrap
from pathlib import Path

import pytest

import posenc as pe
from posenc.testing import check_encoding

ROOT = Path(__file__).parents[2]


@pytest.fixture
def example(tmp_path, monkeypatch):
    text = (ROOT / "CONTRIBUTING.md").read_text()
    (block,) = re.findall(r"   ```python\n(.*?)   ```", text, flags=re.DOTALL)
    (tmp_path / "newcomer.py").write_text(textwrap.dedent(block))
    monkeypatch.syspath_prepend(tmp_path)
    yield "newcomer:Uniform"
    sys.modules.pop("newcomer", None)


@pytest.mark.graph
def test_the_example_passes_the_suite(example):
    made = pe.make(example, model_dim=32, heads=4)
    assert repr(made) == "Uniform(heads=4, slope=0.1)"
    check_encoding(made)


def test_the_code_of_the_readme_runs():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    names: dict[str, object] = {}
    for block in blocks[:2]:
        exec(block, names)
    assert names["out"].shape == (1, 8, 512, 64)
    assert names["logits"].shape == (1, 1, 256)
