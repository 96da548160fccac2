"""Chinese lines joined as Chinese is written: the end of a source line is no space."""

import re

from docutils import nodes
from sphinx.application import Sphinx

from extension.search import HAN
from extension.words import language

WIDE = f"[{HAN}\u3000-\u303f\uff00-\uffef\u2014\u2018-\u201d\u2026]"
ENDS = re.compile(rf"{WIDE}\s*\n\s*$")
BREAK = re.compile(rf"(?<={WIDE})\s*\n\s*(?={WIDE})")


def join(app: Sphinx, doctree: nodes.document) -> None:
    if language(app.config) != "zh":
        return
    for parent in list(doctree.findall(nodes.TextElement)):
        if not isinstance(parent, nodes.FixedTextElement | nodes.raw | nodes.math):
            parent.children[:] = merged(parent)


def merged(parent: nodes.TextElement) -> list[nodes.Node]:
    """The children, text that stands together as one piece."""
    children: list[nodes.Node] = []
    for child in parent.children:
        if isinstance(child, nodes.Text) and children and isinstance(children[-1], nodes.Text):
            child = nodes.Text(children.pop().astext() + child.astext())
        if isinstance(child, nodes.Text):
            child = nodes.Text(BREAK.sub("", child.astext()))
        child.parent = parent
        children.append(child)
    return [trimmed(child, *children[at + 1 : at + 2]) for at, child in enumerate(children)]


def trimmed(child: nodes.Node, following: nodes.Node | None = None) -> nodes.Node:
    """Text without the line's end before a link or emphasis in Chinese."""
    if not isinstance(child, nodes.Text) or following is None:
        return child
    text, parent = child.astext(), child.parent
    if ENDS.search(text) and re.match(WIDE, following.astext()):
        child = nodes.Text(text.rstrip())
        child.parent = parent
    return child


def setup(app: Sphinx) -> None:
    app.connect("doctree-read", join)
