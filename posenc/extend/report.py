"""report.json and report.html of a run."""

from importlib import resources
from pathlib import Path
from typing import Any

from posenc.atomic_files import write_json
from posenc.errors import LabError
from posenc.extend.page import page
from posenc.report.page import write_page


def write_report(out: Path, data: dict[str, Any]) -> Path:
    """Write report.json, and report.html out of it, each whole or not at all; returns the page.

    Raises LabError where `out` cannot be written.
    """
    kit = resources.files("posenc.extend")
    try:
        write_json(out / "report.json", data)
        return write_page(
            out / "report.html",
            generator="posenc extend",
            title=f"{data['verdict']['sentences'][0]} (posenc extend)",
            body=page(data),
            guide=kit.joinpath("guide.html").read_text("utf-8"),
            style=kit.joinpath("page.css").read_text("utf-8"),
        )
    except OSError as error:
        raise LabError(f"the report in {out} cannot be written: {error.strerror}") from None
