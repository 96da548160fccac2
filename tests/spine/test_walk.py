"""How many files a reader opens to follow one query through `attend`."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest
import torch

import posenc as pe
from posenc import attend
from posenc.native.library import LIBRARY

# Shape checks would wrap what is followed here.
pytestmark = pytest.mark.unchecked
HOUSE = Path(pe.__file__).parent


@contextmanager
def files_walked(walked: set[str]) -> Iterator[None]:
    """Notes the files of posenc in which a function is called."""

    def note(frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(HOUSE):
            walked.add(str(path.relative_to(HOUSE)))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(before)


@pytest.mark.parametrize("encoding", [pe.T5Bias(heads=4), pe.ALiBi(heads=4)], ids=repr)
def test_a_query_walks_through_twelve_files(encoding: pe.Encoding) -> None:
    q, k, v = torch.randn(3, 1, 4, 16, 64).unbind()
    backend = "sdpa" if isinstance(LIBRARY, str) else "auto"
    # The first call imports what it needs.
    attend(q, k, v, encoding, causal=True, backend=backend)
    walked: set[str] = set()
    with files_walked(walked):
        attend(q, k, v, encoding, causal=True, backend=backend)
    assert {"attention.py", "lowering.py", "normal_form/normalise.py"} < walked
    assert len(walked) <= 12, sorted(walked)
