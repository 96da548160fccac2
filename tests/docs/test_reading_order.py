"""Every page leads on to another: the order of the tables of contents, and what pages say of it."""

import re
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

import posenc
from tests.support.pages import CHINESE, DOCS, ENGLISH

sys.path.append(str(DOCS.parent / "tools"))

import catalogue_index

TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = {"en": ENGLISH, "zh": CHINESE}
# As furo writes it at the foot of a page.
NEXT = re.compile(r'<a class="next-page" href="([^"#]+)"')


def order(language: str, page: Path = Path("index.md")) -> Iterator[Path]:
    """The pages as Sphinx puts them one after the other: each before those of its contents."""
    yield page
    if page == Path("reference/catalogue/index.md"):
        text = catalogue_index.contents()
    elif page.parent.name == "catalogue":
        return
    else:
        text = PAGES[language][page].read_text()
    for contents in TOCTREE.findall(text):
        for name in re.findall(r"^([\w/]+)$", contents, re.MULTILINE):
            yield from order(language, page.parent / f"{name}.md")


def test_pages_follow_each_other_in_the_same_order_in_both_languages() -> None:
    english, chinese = (list(order(language)) for language in PAGES)
    assert english == chinese
    made = [page for page in english if page.parent.name == "catalogue"]
    assert len(english) == len(set(english))
    assert set(english) - set(made) == set(ENGLISH)
    assert len(made) == len(posenc.encodings()) + 1


@pytest.mark.parametrize(("language", "opening"), [("en", "Next: "), ("zh", "下一页：")])
def test_the_last_page_leads_on_too(language: str, opening: str) -> None:
    *_, last = order(language)
    ending = PAGES[language][last].read_text().rstrip().rpartition("\n")[2]
    assert ending.startswith(f"{opening}[")
    (link,) = re.findall(r"\]\((.+?\.md)\)", ending)
    assert (PAGES[language][last].parent / link).exists()


@pytest.mark.long
def test_each_built_page_has_a_link_to_the_next(site: Path) -> None:
    """Of lessons and how-to pages, in the order of their sources."""
    followed = {}
    for language in PAGES:
        pages = [(site / language / page).with_suffix(".html") for page in order(language)]
        built = [page for page in pages if page.exists()]
        for page, following in pairwise(built):
            (link,) = NEXT.findall(page.read_text())
            assert (page.parent / link).resolve() == following
        followed[language] = [page.relative_to(site / language) for page in built]
    assert followed["en"] == followed["zh"]
    assert len(followed["en"]) > 50
