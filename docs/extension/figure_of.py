"""```{figure-of} NAME: a figure drawn by docs/figures/NAME.py while the page is built.

The file defines draw(theme, language) -> matplotlib's Figure, theme "light" or "dark", language
"en" or "zh". The page shows the one of its language that fits the reader's theme. The option :alt:
says in words what is to be seen; what stands inside is the caption.
"""

import importlib
import os
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from extension.words import language
from posenc.analysis import plot

THEMES = ("light", "dark")


class FigureOf(SphinxDirective):
    required_arguments = 1
    has_content = True
    option_spec: ClassVar = {"alt": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        (name,) = self.arguments
        source = Path(self.env.app.confdir, "figures", f"{name}.py")
        if not source.exists():
            raise self.error(f"figure-of: docs/figures/{name}.py is missing")
        if "alt" not in self.options:
            raise self.error(f"figure-of {name}: say in :alt: what is to be seen")
        self.env.note_dependency(source)
        folder = Path(self.env.app.doctreedir, "figures")
        page = Path(self.env.doc2path(self.env.docname)).parent
        figure = nodes.figure(classes=["drawn"])
        try:
            drawn = draw(name, language(self.config), folder)
        except Exception as error:
            # One that fails is told of, and the others are drawn all the same.
            raise self.error(f"docs/figures/{name}.py: {type(error).__name__}: {error}") from error
        for theme, path in drawn.items():
            uri = os.path.relpath(path, page)
            figure += nodes.image(uri=uri, alt=self.options["alt"], classes=[f"only-{theme}"])
        if self.content:
            children, messages = self.parse_inline(" ".join(self.content), lineno=self.lineno)
            figure += nodes.caption("", "", *children, *messages)
        return [figure]


def draw(name: str, language: str, folder: Path) -> dict[str, Path]:
    """The file of the figure in each theme."""
    module = importlib.import_module(f"figures.{name}")
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {theme: folder / f"{name}.{theme}.svg" for theme in THEMES}
    for theme, path in drawn.items():
        plot.save(module.draw(theme, language), path)
    return drawn


def setup(app: Sphinx) -> None:
    app.add_directive("figure-of", FigureOf)
