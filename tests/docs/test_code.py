"""The code of the pages runs, and prints what they say that it prints."""

import contextlib
import io
import re
from pathlib import Path

import pytest
import torch

from tests.support.pages import BLOCK, CHINESE, DOCS, ENGLISH, PAGES, blocks, code

# A block, and what it prints, behind words of the same section.
SHOWN = re.compile(BLOCK.pattern + r"\n(?:(?:(?!#|```)[^\n]*\n)+```text\n(.*?)^```)?", BLOCK.flags)


def running() -> list[Path]:
    """Pages with code; one that does what its English page does has nothing new to run."""
    same = [path for name, path in CHINESE.items() if code(path) == code(ENGLISH.get(name, path))]
    return [page for page in PAGES if blocks(page) and page not in same]


def traced(page: Path) -> list[pytest.MarkDecorator]:
    """The public checks compile, which checks of shapes would stand in the way of."""
    return [pytest.mark.graph] if any("check_encoding(" in block for block in blocks(page)) else []


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, id=str(page.relative_to(DOCS)), marks=traced(page)) for page in running()],
)
def test_its_code_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Block after block in one namespace; each prints what the page shows."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    namespace: dict[str, object] = {}
    found = SHOWN.findall(page.read_text())
    assert [block for block, _ in found] == blocks(page)
    for block, shown in found:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block, str(page), "exec"), namespace)
        if shown:
            assert printed.getvalue() == shown


def test_pages_that_are_not_run_show_the_same_prints() -> None:
    run = running()
    others = [name for name, page in CHINESE.items() if page not in run]
    for name in others:
        english, chinese = (
            [shown for _, shown in SHOWN.findall(pages[name].read_text())]
            for pages in (ENGLISH, CHINESE)
        )
        assert english == chinese, name
