"""```{gallery} NAME: a picture that tools/gallery.py drew, for the page's language and theme.

The option :alt: says what is to be seen.
"""

import os
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from extension.figure_of import THEMES
from extension.words import language


class Gallery(SphinxDirective):
    required_arguments = 1
    option_spec: ClassVar = {"alt": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        (name,) = self.arguments
        folder = Path(self.env.app.confdir, "build", "gallery", language(self.config))
        page = Path(self.env.doc2path(self.env.docname)).parent
        try:
            return [*pictures(folder, name, self.options.get("alt", name), page)]
        except FileNotFoundError as error:
            raise self.error(f"gallery: {error}") from error


def pictures(folder: Path, name: str, alt: str, page: Path) -> list[nodes.image]:
    """The picture in each theme, for a page in the folder `page`."""
    shown = []
    for theme in THEMES:
        path = folder / f"{name}.{theme}.svg"
        if not path.exists():
            raise FileNotFoundError(f"{path} is missing; make docs draws it")
        uri = os.path.relpath(path, page)
        # A page may have dozens, of which few are in sight, and those of one theme.
        look = {"classes": [f"only-{theme}"], "loading": "lazy"}
        shown.append(nodes.image(uri=uri, alt=alt, **look))
    return shown


def setup(app: Sphinx) -> None:
    app.add_directive("gallery", Gallery)
