"""The sections of report.html, drawn from what report.json holds."""

from typing import Any

from posenc.report.markup import Markup, tag


def page(data: dict[str, Any]) -> Markup:
    """Everything inside `<main>`."""
    return tag("h1", data["verdict"]["sentences"][0])
