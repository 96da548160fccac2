"""inspect.html, drawn from what inspect.json holds."""

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from posenc.report import page as report_page
from posenc.report.markup import Child, Markup, tag, text


def write_page(out: Path, data: Mapping[str, Any]) -> Path:
    """Write inspect.html whole or not at all; `data` is what inspect.json holds."""
    own = resources.files("posenc.inspection")
    return report_page.write_page(
        out / "inspect.html",
        generator="posenc inspect",
        title=f"{data['source']} (posenc inspect)",
        body=body(data),
        guide=own.joinpath("guide.html").read_text("utf-8"),
    )


def body(data: Mapping[str, Any]) -> Markup:
    """Everything inside `<main>` but how to read it."""
    parts: list[Child] = [tag("h1", data["source"])]
    parts.append(tag("ul", [tag("li", sentence) for sentence in data["summary"]]))
    return Markup("\n".join(part for part in map(text, parts) if part))
