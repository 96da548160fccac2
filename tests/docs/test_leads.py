"""Tables of contents: each entry with the first sentence of its page."""

import re
import sys
from html import unescape
from pathlib import Path

import pytest
from docutils import nodes

from tests.support.pages import CHINESE, DOCS, ENGLISH

sys.path.append(str(DOCS))

from extension.leads import first_sentence

ENTRY = re.compile(r'href="(\w+)\.html">.*?</a> <span>(.*?)</span></p>', re.DOTALL)


def sentence(*children: nodes.Node) -> str:
    document = nodes.section("", nodes.title("", "A title."), nodes.paragraph("", "", *children))
    return "".join(child.astext() for child in first_sentence(document))


def test_a_sentence_ends_where_it_does() -> None:
    assert sentence(nodes.Text("One of 2.5 parts. Another.")) == "One of 2.5 parts."
    assert sentence(nodes.Text("为什么？"), nodes.Text("因为。")) == "为什么？"
    # Lines come one by one.
    assert sentence(nodes.Text("Measures:"), nodes.Text("\n"), nodes.Text("this. That.")) == (
        "Measures:\nthis."
    )
    assert sentence(nodes.Text("All of them:")) == "All of them."
    assert sentence(nodes.Text("全部：")) == "全部。"
    formula = nodes.inline("", "", nodes.math(text="n"), nodes.Text("."))
    assert sentence(nodes.Text("Take "), formula, nodes.Text(" Then go.")) == "Take n."
    assert sentence() == ""


def test_a_link_within_a_link_is_words() -> None:
    link = nodes.reference("", "", nodes.literal("", "pe.read"), nodes.Text(" reads"), refuri="a")
    raw = nodes.raw("", '<a href="b">the page</a>', format="html")
    paragraph = nodes.paragraph("", "", link, nodes.Text(" "), raw, nodes.Text(". More."))
    found = first_sentence(nodes.section("", paragraph))
    assert "".join(child.astext() for child in found) == "pe.read reads the page."
    assert [type(child) for child in found] == [nodes.literal, nodes.Text]


@pytest.mark.long
@pytest.mark.parametrize(("language", "pages"), [("en", ENGLISH), ("zh", CHINESE)])
@pytest.mark.parametrize("folder", ["learn", "howto"])
def test_every_entry_says_what_its_page_is_about(
    site: Path, language: str, pages: dict[Path, Path], folder: str
) -> None:
    index = (site / language / folder / "index.html").read_text()
    told = {}
    for contents in re.findall(r'<ul class="leads[^"]*">(.*?)</ul>', index, re.DOTALL):
        for link, said in ENTRY.findall(contents):
            told[link] = unescape(re.sub("<[^>]*>", "", said))
    listed = {page.stem for page in pages if page.parent == Path(folder)} - {"index"}
    assert set(told) == listed
    assert [name for name, said in told.items() if not re.search(r"[.?!。？！]$", said)] == []
