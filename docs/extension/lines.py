"""Lines that break where readers expect it.

The end of a source line is no space in Chinese, and no formula leaves the sign behind that ends
its sentence.
"""

import re

from docutils import nodes
from sphinx.application import Sphinx

from extension.search import HAN
from extension.words import language

WIDE = f"[{HAN}\u3000-\u303f\uff00-\uffef\u2014\u2018-\u201d\u2026]"
ENDS = re.compile(rf"{WIDE}\s*\n\s*$")
CLOSING = re.compile(r"^[，。；：、！？）」』”.,;:!?)]+")
BREAK = re.compile(rf"(?<={WIDE})\s*\n\s*(?={WIDE})")


def join(app: Sphinx, doctree: nodes.document) -> None:
    chinese = language(app.config) == "zh"
    for parent in list(doctree.findall(nodes.TextElement)):
        if not isinstance(parent, nodes.FixedTextElement | nodes.raw | nodes.math):
            parent.children[:] = together(merged(parent) if chinese else parent.children)


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


def together(children: list[nodes.Node]) -> list[nodes.Node]:
    """The same, formulas in one piece with the signs that close what they stand in."""
    kept: list[nodes.Node] = []
    for child in children:
        closing = CLOSING.match(child.astext()) if isinstance(child, nodes.Text) else None
        if closing and kept and isinstance(kept[-1], nodes.math):
            piece = nodes.inline("", "", kept[-1], nodes.Text(closing[0]), classes=["together"])
            rest = nodes.Text(child.astext()[closing.end() :])
            piece.parent = rest.parent = child.parent
            kept[-1:] = [piece, rest]
        else:
            kept.append(child)
    return kept


def trimmed(child: nodes.Node, following: nodes.Node | None = None) -> nodes.Node:
    """Text without the line's end before a link or emphasis in Chinese."""
    if not isinstance(child, nodes.Text) or following is None:
        return child
    text, parent = child.astext(), child.parent
    # A link to another site is HTML already.
    if ENDS.search(text) and re.match(WIDE, re.sub("^<[^>]*>", "", following.astext())):
        child = nodes.Text(text.rstrip())
        child.parent = parent
    return child


def setup(app: Sphinx) -> None:
    app.connect("doctree-read", join)
