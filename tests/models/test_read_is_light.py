"""Reading a configuration waits for nothing that it does not need."""

import subprocess
import sys

from tests.models.test_read_facts import FACTS, facts

_CODE = """
import sys
import posenc as pe
spec = pe.read({config!r})
assert isinstance(spec, pe.ModelSpec), spec
heavy = {{"torch", "numpy", "transformers"}} & set(sys.modules)
assert not heavy, heavy
"""


def test_no_torch_is_imported() -> None:
    config = facts("llama-3.1-8b")["config"]
    code = _CODE.format(config=config)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_there_are_facts() -> None:
    assert len(FACTS) > 60
