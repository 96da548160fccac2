"""```{answer}: the answer of an exercise, folded until the reader asks for it."""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from extension.words import word


class Answer(SphinxDirective):
    has_content = True

    def run(self) -> list[nodes.Node]:
        self.assert_has_content()
        summary = word(self.config, "answer")
        start = f'<details class="answer"><summary>{summary}</summary>'
        return [
            nodes.raw("", start, format="html"),
            *self.parse_content_to_nodes(),
            nodes.raw("", "</details>", format="html"),
        ]


def setup(app: Sphinx) -> None:
    app.add_directive("answer", Answer)
