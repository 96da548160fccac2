"""Tables of contents say of each page how it begins: its title, and its first sentence."""

import re
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

# Words, and a formula with the sign that closes it.
ENDING = (nodes.Text, nodes.inline)
END = re.compile(r"[.?!](?=\s|$)|[。？！]")
# A sentence that leads to a list or a block, which is not there.
COLON = re.compile(r"[:：]\s*$")


def depend(app: Sphinx, doctree: nodes.document) -> None:
    """A page is read again when one changes that it tells of."""
    for _, page in listed(doctree):
        app.env.note_dependency(str(app.env.doc2path(page)))


def tell(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """The list in place of each table of contents that is seen, which stays for the sidebar."""
    for toctree in list(doctree.findall(addnodes.toctree)):
        told = nodes.bullet_list(classes=["leads"])
        for _, page in listed(toctree):
            address = app.builder.get_relative_uri(docname, page)
            titles = [child.deepcopy() for child in app.env.titles[page].children]
            link = nodes.reference("", "", *titles, refuri=address, internal=True)
            sentence = nodes.inline("", "", *first_sentence(app.env.get_doctree(page)))
            told += nodes.list_item("", nodes.paragraph("", "", link, nodes.Text(" "), sentence))
        if told.children:
            toctree.replace_self([told, hidden(toctree)])


def listed(tree: nodes.Node) -> Iterator[tuple[str | None, str]]:
    """Title, if it is another than the page's own, and page of each entry that is seen."""
    for toctree in tree.findall(addnodes.toctree):
        if not toctree["hidden"]:
            yield from toctree["entries"]


def hidden(toctree: addnodes.toctree) -> addnodes.toctree:
    copy = toctree.deepcopy()
    copy["hidden"] = True
    return copy


def first_sentence(document: nodes.document) -> list[nodes.Node]:
    """What a page says first, its links as plain words."""
    paragraph = next(document.findall(nodes.paragraph), nodes.paragraph())
    said: list[nodes.Node] = []
    for child in plain(paragraph):
        ended = END.search(child.astext()) if isinstance(child, ENDING) else None
        if not ended:
            said.append(child)
        elif isinstance(child, nodes.Text):
            return [*said, nodes.Text(child.astext()[: ended.end()])]
        else:
            return [*said, child]
    if said and isinstance(said[-1], nodes.Text):
        stop = {":": ".", "：": "。"}
        said[-1] = nodes.Text(COLON.sub(lambda end: stop[end[0].strip()], said[-1].astext()))
    return said


def plain(node: nodes.Node) -> list[nodes.Node]:
    """The children of a paragraph, words in place of links, and words in one piece."""
    pieces: list[nodes.Node] = []
    for child in node.children:
        if isinstance(child, nodes.reference | addnodes.pending_xref):
            found = plain(child)
        elif isinstance(child, nodes.raw):
            found = [nodes.Text(re.sub("<[^>]*>", "", child.astext()))]
        else:
            found = [] if isinstance(child, nodes.Invisible) else [child.deepcopy()]
        for piece in found:
            if pieces and isinstance(piece, nodes.Text) and isinstance(pieces[-1], nodes.Text):
                piece = nodes.Text(pieces.pop().astext() + piece.astext())
            pieces.append(piece)
    return pieces


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-read", depend)
    app.connect("doctree-resolved", tell)
    return {"parallel_read_safe": True}
