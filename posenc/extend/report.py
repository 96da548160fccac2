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

GUIDES: dict[Language, str] = {"en": "guide.html", "zh": "guide.zh.html"}


def write_report(out: Path, data: dict[str, Any], language: Language = "en") -> Path:
    """Write report.json, and report.html out of it, each whole or not at all; returns the page.

    Raises LabError where `out` cannot be written.
    """
    kit, say = resources.files("posenc.extend"), Words(language, TEXTS)
    headline = sentences(data, data["verdict"], say)[0]
    try:
        write_json(out / "report.json", data)
        return write_page(
            out / "report.html",
            generator="posenc extend",
            title=say("title", headline=headline),
            body=page(data, say),
            guide=kit.joinpath(GUIDES[language]).read_text("utf-8"),
            style=kit.joinpath("page.css").read_text("utf-8"),
            language=language,
        )
    except OSError as error:
        raise LabError(f"the report in {out} cannot be written: {error.strerror}") from None
