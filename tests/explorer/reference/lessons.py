"""With which addresses the lessons open panels of the page."""

import re
from pathlib import Path

LEARN = Path(__file__).parents[3] / "docs" / "en" / "learn"
PANEL = re.compile(r"^```\{panel\} (\w+)(.*)$", re.MULTILINE)


def panels() -> list[dict[str, str]]:
    """{lesson, hash} of each, the hash as the docs write it."""
    return [
        {"lesson": path.stem, "hash": "&".join(("#panel=" + name, *settings.split()))}
        for path in sorted(LEARN.glob("*.md"))
        for name, settings in PANEL.findall(path.read_text("utf-8"))
    ]
