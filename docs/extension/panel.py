"""```{panel} NAME: a panel of the explorer, as a link, and on wide screens in the page itself."""

from html import escape

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from extension.links import explorer
from extension.words import word
from posenc.explorer.bundle import panels

HTML = """<div class="panel">
<p><a href="{href}">{text}</a></p>
<iframe data-src="{href}" title="{text}" loading="lazy"></iframe>
</div>"""


class Panel(SphinxDirective):
    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        (name,) = self.arguments
        if name not in panels():
            raise self.error(f"panel: there is no {name!r}, but {', '.join(panels())}")
        href = escape(explorer(self.config, self.env.docname, name))
        html = HTML.format(href=href, text=word(self.config, "panel"))
        return [nodes.raw("", html, format="html")]


def setup(app: Sphinx) -> None:
    app.add_directive("panel", Panel)
