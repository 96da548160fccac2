"""The explorer as one HTML file with its modules joined into one script; nothing is fetched.

python -m posenc.explorer.bundle page.html [lessons]
"""

import base64
import html
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posenc.atomic_files import replace_file
from posenc.explorer.joined import joined

SOURCE = Path(__file__).parent
ENCODINGS = SOURCE.parent / "encodings" / "_all.py"
MEMBERS = "data/members.js"
FOLDERS = ("core", "math", "formulas", "panels", "story", "data", "vendor")


def bundle(lessons: str = "", members: Mapping[str, Any] | None = None) -> str:
    """The page's HTML.

    lessons is the address of a lesson, with `{page}` for its path (en/learn/base): a link to read
    more. Without it the page only names the lesson's file. members are the `tables` of encodings
    that the page has no JavaScript for; those of posenc are among them without being asked for.
    """
    style = "\n".join(_text(path) for path in sorted(SOURCE.glob("vendor/*.css")))
    font = base64.b64encode((SOURCE / "vendor" / "stix.woff").read_bytes()).decode()
    style += "\n" + _text(SOURCE / "style.css").replace("{{font}}", f"data:font/woff;base64,{font}")
    sources = {name: _text(SOURCE / name) for name in _modules()}
    sources[MEMBERS] = data({**own_members(), **(members or {})})
    parts = {
        "lessons": html.escape(lessons),
        "style": style,
        "script": joined(sources),
    }
    page = _text(SOURCE / "page.html")
    for name, text in parts.items():
        before, _, after = page.partition("{{" + name + "}}")
        page = before + text + after
    return page


def panels() -> list[str]:
    """The ids of the panels, which are the names of their files."""
    return _listed("panels")


def chapters() -> list[str]:
    """The ids of the story's chapters, each that of the panel whose numbers it shows."""
    return _listed("story")


def write(path: Path, lessons: str = "", members: Mapping[str, Any] | None = None) -> None:
    """Write the page to `path`, whole or not at all."""
    replace_file(path, bundle(lessons, members).encode())


def data(members: Mapping[str, Any]) -> str:
    """data/members.js with these tables in it."""
    return f"export default {json.dumps(members)};"


def own_members() -> dict[str, Any]:
    """The tables of posenc's own encodings that have no JavaScript here; torch makes them."""
    import posenc
    from posenc.explorer.tables import tables

    return tables(getattr(posenc, kind) for kind in without_javascript())


def without_javascript() -> list[str]:
    """The classes of posenc that only a table can show here, read from the sources."""
    kinds = re.findall(r"^from posenc\.encodings\.\w+ import (\w+) as", _text(ENCODINGS), re.M)
    written = re.findall(r'\bkind: "(\w+)"', _text(SOURCE / "math" / "catalogue.js"))
    return [kind for kind in kinds if kind not in written]


def _listed(folder: str) -> list[str]:
    return sorted(path.stem for path in (SOURCE / folder).glob("*.js") if path.stem != "index")


def _modules() -> list[str]:
    paths = [path for folder in FOLDERS for path in sorted((SOURCE / folder).glob("*.js"))]
    return [*(path.relative_to(SOURCE).as_posix() for path in paths), "app.js"]


def _text(path: Path) -> str:
    return path.read_text("utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "")
