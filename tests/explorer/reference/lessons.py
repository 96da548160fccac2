"""With which addresses the lessons open panels and chapters of the page."""

import re
from pathlib import Path

LEARN = Path(__file__).parents[3] / "docs" / "en" / "learn"
SHOWN = re.compile(r"^```\{(panel|chapter)\} (\w+)(.*)$", re.MULTILINE)
FORMS = {"panel": "#panel={}", "chapter": "#{}"}


def panels() -> list[dict[str, str]]:
    """{lesson, hash} of each, the hash as the docs write it."""
    return [
        {"lesson": path.stem, "hash": "&".join((FORMS[kind].format(name), *settings.split()))}
        for path in sorted(LEARN.glob("*.md"))
        for kind, name, settings in SHOWN.findall(path.read_text("utf-8"))
    ]
