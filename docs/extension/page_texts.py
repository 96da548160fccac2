"""What pages say, in one file that the search page reads for its excerpts.

A page that is opened as a file may not fetch others, so Sphinx's own excerpts fail there.
"""

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx import addnodes
from sphinx.application import Sphinx

# Says nothing in a quotation: marks of the index, notes of writers, formulas on lines of their own,
# and calls, whose types stand there twice until their links are found.
SILENT = (nodes.Invisible, nodes.math_block, nodes.image, nodes.title, addnodes.desc_signature)


def parts(document: nodes.document) -> Iterator[tuple[str, str]]:
    """The id and the text of each section, without those within it."""
    for section in document.findall(nodes.section):
        own = (child for child in section.children if not isinstance(child, nodes.section))
        text = " ".join(" ".join(map(said, own)).split())
        for name in section["ids"][:1]:
            yield name, text


def said(node: nodes.Node) -> str:
    """The words of a node; what is HTML already, without its tags."""
    if isinstance(node, SILENT):
        return ""
    if isinstance(node, nodes.raw):
        return re.sub("<[^>]*>", "", node.astext())
    if isinstance(node, nodes.math):
        return unescape(re.sub("<[^>]*>", "", convert(node.astext())))
    if isinstance(node, nodes.Text):
        return node.astext()
    between = "" if isinstance(node, nodes.TextElement) else " "
    return between.join(map(said, node.children))


def write(app: Sphinx, exception: Exception | None) -> None:
    if exception is None and app.builder.format == "html":
        pages = {name: list(parts(app.env.get_doctree(name))) for name in app.env.found_docs}
        told = json.dumps(pages, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        Path(app.outdir, "_static", "page_texts.js").write_text(f"var pageTexts = {told};\n")


def add(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: object) -> None:
    if page == "search":
        for name in ("page_texts.js", "search.js"):
            app.add_js_file(name, loading_method="defer")


def setup(app: Sphinx) -> None:
    app.connect("html-page-context", add)
    app.connect("build-finished", write)
