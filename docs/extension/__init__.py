"""What the pages of posenc ask of Sphinx: directives, formulas, search, reference."""

from typing import Any

from sphinx.application import Sphinx

from extension import (
    answer,
    commands,
    docstrings,
    figure_of,
    gallery,
    lines,
    links,
    mathml,
    panel,
    search,
    theme,
)

PARTS = (
    answer,
    commands,
    docstrings,
    figure_of,
    gallery,
    lines,
    links,
    mathml,
    panel,
    search,
    theme,
)


def setup(app: Sphinx) -> dict[str, Any]:
    for part in PARTS:
        part.setup(app)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
