"""What a lesson says its code prints is what it prints."""

import contextlib
import io
import re
from pathlib import Path

import pytest
import torch

DOCS = Path(__file__).parents[2] / "docs"
# A block of code, one line of words, and what is printed.
SHOWN = re.compile(r"^```python\n(.*?)^```\n(?:\n[^\n`]+\n\n```text\n(.*?)^```)?", re.M | re.DOTALL)
LESSONS = sorted(
    page
    for page in DOCS.glob("*/learn/*.md")
    if any(shown for _, shown in SHOWN.findall(page.read_text("utf-8")))
)


@pytest.mark.parametrize("page", LESSONS, ids=lambda page: str(page.relative_to(DOCS)))
def test_a_lesson_shows_what_its_code_prints(page: Path) -> None:
    torch.manual_seed(0)
    namespace: dict[str, object] = {}
    for block, shown in SHOWN.findall(page.read_text("utf-8")):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block, str(page), "exec"), namespace)
        if shown:
            assert printed.getvalue() == shown
