"""The pages of the docs, but for the catalogue's, and the code on them."""

import ast
import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"

# Pages of the catalogue, which are made anew for the site, have a test of their own.
ENGLISH, CHINESE = (
    {
        path.relative_to(DOCS / language): path
        for path in sorted((DOCS / language).rglob("*.md"))
        if path.parent.name != "catalogue"
    }
    for language in ("en", "zh")
)
PAGES = [*ENGLISH.values(), *CHINESE.values()]
LESSONS = sorted(page for page in ENGLISH if page.parts[0] == "learn" and page.stem != "index")

BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text())


def code(page: Path) -> list[str]:
    """What its blocks do, comments aside."""
    return [ast.dump(ast.parse(block)) for block in blocks(page)]
