"""Links that leave a language's own site.

{en}`text <reference/cli>` and {zh}`...` go to a page of the other language,
{explorer}`text <circle>` to a chapter of the explorer, which is the front page of all, or to a
panel that is no chapter.
"""

from collections.abc import Mapping
from html import escape
from urllib.parse import urlencode

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util.docutils import ReferenceRole

from extension.words import language
from posenc.explorer.bundle import panels


def root(docname: str) -> str:
    """The way from a page up to the folder that holds all languages and the explorer."""
    return "../" * (docname.count("/") + 1)


def explorer(
    config: Config, docname: str, shown: str, settings: Mapping[str, str] | None = None
) -> str:
    """What the explorer shows by that name, `circle` or `panel=circle`, with these settings."""
    chosen = urlencode({"lang": language(config), **(settings or {})})
    return f"{root(docname)}index.html#{shown}&{chosen}"


class OtherLanguage(ReferenceRole):
    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        page, mark, anchor = self.target.partition("#")
        href = f"{root(self.env.docname)}{self.name}/{page}.html{mark}{anchor}"
        return [link(href, self.title)], []


class Explorer(ReferenceRole):
    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        if self.target not in panels():
            message = f"explorer: no panel {self.target!r}, but {', '.join(panels())}"
            return [], [self.inliner.reporter.error(message, line=self.lineno)]
        return [link(explorer(self.config, self.env.docname, self.target), self.title)], []


def link(href: str, text: str) -> nodes.raw:
    return nodes.raw("", f'<a href="{escape(href)}">{escape(text)}</a>', format="html")


def setup(app: Sphinx) -> None:
    app.add_role("en", OtherLanguage())
    app.add_role("zh", OtherLanguage())
    app.add_role("explorer", Explorer())
