"""posenc's docstrings are plain text; autodoc wants reStructuredText.

Blocks that are indented by four spaces are formulas, blocks of two columns say what names mean, and
what stands between backticks is code. Everything else means itself, stars and underscores too.
"""

import re
from typing import Any

from sphinx.application import Sphinx
from sphinx.util.typing import stringify_annotation

from posenc.lowering import Lowerable

CODE = re.compile(r"(`+)(.+?)\1", re.DOTALL)
MARKUP = re.compile(r"([*_|\\])")
# "name    meaning", and "name: meaning" where several stand below each other.
ENTRY = re.compile(r"^(\S+(?:, \S+)*)\s{2,}(\S.*)$")
COLON = re.compile(r"^([a-z_]+): (\S.*)$", re.MULTILINE)


def to_rst(lines: list[str]) -> list[str]:
    """The lines of a docstring as reStructuredText."""
    converted: list[str] = []
    for block in re.split(r"\n\s*\n", "\n".join(lines).rstrip()):
        if converted:
            converted.append("")
        if block.startswith("    "):
            converted += formula(block)
        elif ENTRY.match(block.partition("\n")[0]):
            converted += meanings(block, ENTRY)
        elif COLON.match(block) and len(COLON.findall(block)) > 1:
            converted += meanings(block, COLON)
        else:
            converted += prose(block)
    return [*converted, ""]


def formula(block: str) -> list[str]:
    return [".. code-block:: text", "", *block.split("\n")]


def meanings(block: str, entry: re.Pattern[str]) -> list[str]:
    """A definition list out of names and, to their right, what they mean."""
    entries: list[tuple[str, list[str]]] = []
    for line in block.split("\n"):
        match = entry.match(line)
        if match:
            entries.append((match[1], [match[2]]))
        else:
            entries[-1][1].append(line.strip())
    return [
        line
        for names, text in entries
        for line in (f"``{names}``", *(f"    {said}" for said in prose("\n".join(text))))
    ]


def prose(block: str) -> list[str]:
    """Escaped text; a formula may follow it without an empty line."""
    head, _, tail = block.partition("\n    ")
    parts, end = [], 0
    for match in CODE.finditer(head):
        parts += [MARKUP.sub(r"\\\1", head[end : match.start()]), f"``{match[2]}``"]
        end = match.end()
        # Letters right behind code, as in `Peer`s, are kept apart from its marks.
        if head[end : end + 1].isalnum():
            parts.append("\\ ")
    parts.append(MARKUP.sub(r"\\\1", head[end:]))
    lines = "".join(parts).split("\n")
    return [*lines, "", *formula(f"    {tail}")] if tail else lines


def process(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = to_rst(lines)


def shorten(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str | None, returns: str
) -> tuple[str | None, str]:
    """The union of all that lowers under its name, where autodoc would spell it out."""
    spelled = stringify_annotation(Lowerable, "smart")
    return signature and signature.replace(spelled, "Lowerable"), returns


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-signature", shorten)
    app.connect("autodoc-process-docstring", process)
