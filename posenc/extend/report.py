"""report.json and report.html of a run."""

from importlib import resources
from pathlib import Path
from typing import Any

from posenc.atomic_files import write_json
from posenc.errors import LabError
from posenc.extend.page import page
from posenc.extend.sentences import sentences
from posenc.extend.words import TEXTS
from posenc.report.page import write_page
from posenc.words import Language, Words


def write_report(out: Path, data: dict[str, Any], language: Language = "en") -> Path:
    """Write report.json, and report.html out of it, each whole or not at all; returns the page.

    Raises LabError where `out` cannot be written.
    """
    style, say = resources.files("posenc.extend").joinpath("page.css"), Words(language, TEXTS)
    headline = sentences(data, data["verdict"], say)[0]
    try:
        write_json(out / "report.json", data)
        return write_page(
            out / "report.html",
            command="posenc extend",
            headline=headline,
            body=page(data, say),
            folder="posenc.extend",
            style=style.read_text("utf-8"),
            language=language,
        )
    except OSError as error:
        raise LabError(f"the report in {out} cannot be written: {error.strerror}") from None
