"""The pages: both languages have the same ones, their links lead somewhere."""

import itertools
import re
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from markdown_it import MarkdownIt

import posenc
from tests.support.pages import CHINESE, DOCS, ENGLISH, LESSONS, PAGES, blocks

ROOT = Path(__file__).parents[2]
sys.path += [str(ROOT / "tools"), str(DOCS)]

FRONT = [ROOT / name for name in ("README.md", "README.zh-CN.md", "CONTRIBUTING.md", "DESIGN.md")]

FENCE = re.compile(r"^(`{3,}|~{3,}).*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^(#+) (.*)$", re.MULTILINE)
LINK = re.compile(r"(?<!\\)\]\(([^)\s]+)\)")


def names(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and MyST make them."""
    headings = HEADING.findall(FENCE.sub("", page.read_text()))
    plain = (re.sub(r"[^\w\- ]", "", text.strip().lower()) for _, text in headings)
    return {text.replace(" ", "-") for text in plain}


def test_both_languages_have_the_same_pages() -> None:
    assert set(ENGLISH) == set(CHINESE)


@pytest.mark.parametrize("name", LESSONS, ids=str)
def test_a_lesson_has_all_its_parts(name: Path) -> None:
    for page in (ENGLISH[name], CHINESE[name]):
        text = page.read_text()
        assert f"```{{figure-of}} {name.stem}\n:alt: " in text
        assert (DOCS / "figures" / f"{name.stem}.py").exists()
        assert re.search(r"\$[^$]+\$", text), "a formula"
        assert re.search(r"^```\{(panel|chapter)\} ", text, re.MULTILINE)
        assert "{answer}" in text
        assert blocks(page), "code"
    levels = [
        [level for level, _ in HEADING.findall(FENCE.sub("", page.read_text()))]
        for page in (ENGLISH[name], CHINESE[name])
    ]
    assert levels[0] == levels[1], "headings of both languages"


def test_the_front_page_has_the_same_pictures_and_doors_in_both_languages() -> None:
    shown = []
    for pages in (ENGLISH, CHINESE):
        text = pages[Path("index.md")].read_text()
        pictures = re.findall(
            r"^```\{(?:gallery|figure-of)\} (\w\S+)\n:alt: \S", text, re.MULTILINE
        )
        shown.append((pictures, LINK.findall(text)))
    assert shown[0][0] == shown[1][0]
    anchors = [[link.partition("#")[0] for link in links] for _, links in shown]
    assert anchors[0] == anchors[1]
    doors = [name for name in shown[0][0] if (DOCS / "figures" / f"{name}.py").exists()]
    assert doors == ["door_learner", "door_engineer", "door_researcher"]


def test_every_lesson_is_listed() -> None:
    for language in ("en", "zh"):
        text = (DOCS / language / "learn" / "index.md").read_text()
        listed = re.findall(r"^(\w+)$", text, re.MULTILINE)
        assert sorted(listed) == [name.stem for name in LESSONS]


@pytest.mark.parametrize(("language", "opening"), [("en", "Next: "), ("zh", "下一课：")])
def test_each_lesson_ends_with_a_link_to_the_next(language: str, opening: str) -> None:
    folder = DOCS / language / "learn"
    order = re.findall(r"^(\w+)$", (folder / "index.md").read_text(), re.MULTILINE)
    for lesson, following in itertools.pairwise(order):
        last = (folder / f"{lesson}.md").read_text().rstrip().rpartition("\n")[2]
        assert last.startswith(f"{opening}["), lesson
        assert f"]({following}.md)" in last, lesson


@pytest.mark.parametrize("page", [*PAGES, *FRONT], ids=lambda page: str(page.relative_to(ROOT)))
def test_its_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(FENCE.sub("", page.read_text())):
        parts = urlsplit(link)
        if parts.scheme:
            assert parts.scheme in ("http", "https"), link
            assert "." in parts.netloc, link
            continue
        target = (page.parent / parts.path).resolve() if parts.path else page
        assert target.exists() or target.parent.name == "catalogue", link
        if parts.fragment:
            assert parts.fragment in names(target), link


@pytest.mark.parametrize(
    "page",
    [*CHINESE.values(), ROOT / "README.zh-CN.md"],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_chinese_is_punctuated_as_chinese(page: Path) -> None:
    from punctuate import punctuate

    text = page.read_text()
    wrong = [
        ours
        for ours, theirs in zip(text.split("\n"), punctuate(text).split("\n"), strict=True)
        if ours != theirs
    ]
    assert not wrong, "python tools/punctuate.py mends this"


@pytest.mark.parametrize("name", CHINESE, ids=str)
def test_no_stars_are_left_of_stress(name: Path) -> None:
    """Between a full stop and a letter, as Chinese has them, stars close nothing."""
    words = (
        child.content
        for token in MarkdownIt().enable("table").parse(CHINESE[name].read_text())
        for child in token.children or ()
        if child.type == "text"
    )
    # Stars of formulas have letters of formulas beside them.
    beside = re.compile(r"[\u3000-\u9fff\uff00-\uffef]\*|\*[\u3000-\u9fff\uff00-\uffef]")
    assert [text for text in words if beside.search(text)] == []


@pytest.mark.parametrize("name", CHINESE, ids=str)
def test_comments_in_chinese_pages_are_chinese(name: Path) -> None:
    comments = re.findall(r"(?:^|\s)# (.+)$", "".join(blocks(CHINESE[name])), re.MULTILINE)
    words = (comment for comment in comments if re.search(r"[a-z]{2,} [a-z]{2,}", comment))
    # What has an equals sign is a formula.
    assert [comment for comment in words if not re.search(r"[=\u4e00-\u9fff]", comment)] == []


def test_every_public_name_is_in_the_reference() -> None:
    text = "".join(path.read_text() for path in (DOCS / "en/reference/api").glob("*.md"))
    described = set(re.findall(r":: posenc\.(\w+)(?:\(.*\))?$", text, re.MULTILINE))
    classes = {kind.__name__ for kind in posenc.encodings().values()}
    elsewhere = {"encodings", "measure"} | {
        name for name in posenc.__all__ if name.endswith("Error")
    }
    assert set(posenc.__all__) - classes - elsewhere == described & set(posenc.__all__)


class TestExtension:
    """What the pages ask of Sphinx."""

    def test_docstrings_become_text_that_means_itself(self) -> None:
        from extension.docstrings import to_rst

        found = to_rst(
            [
                "Scores of `q`s and k_i * 2:",
                "",
                "    s = q * k",
                "",
                "causal    no key is *later*",
                "          than its query",
                "q, k      raw",
            ]
        )
        assert found[0] == r"Scores of ``q``\ s and k\_i \* 2:"
        assert found[2:5] == [".. code-block:: text", "", "    s = q * k"]
        assert found[6:9] == ["``causal``", r"    no key is \*later\*", "    than its query"]
        assert found[9:11] == ["``q, k``", "    raw"]

    def test_chinese_is_found_by_any_part_of_it(self) -> None:
        from extension.search import SearchChinese

        words = SearchChinese({}).split("旋转位置编码 RoPE")
        assert {"旋转", "转位", "位置", "置编", "编码", "旋", "RoPE"} <= set(words)

    def test_an_unknown_command_in_a_formula_is_a_warning(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from docutils import nodes
        from extension import mathml

        said: list[str] = []
        monkeypatch.setattr(mathml.logger, "warning", lambda text, *_, **__: said.append(text))
        assert mathml.mathml(nodes.math(), "inline", r"\frac{1}{2}").startswith("<math")
        assert not said
        mathml.mathml(nodes.math(), "inline", r"\nosuchcommand{1}")
        assert said

    def test_formulas_beside_each_other_are_told_apart(self) -> None:
        from extension.mathml import beside

        assert beside(r"a = b, \qquad c = d") == ["a = b,", "c = d"]
        for whole in (r"a = b", r"\left( a \qquad b \right)", r"\text{a \qquad b}"):
            assert beside(whole) == [whole]

    def test_a_formula_keeps_the_sign_that_ends_its_sentence(self) -> None:
        from docutils import nodes
        from extension.lines import together

        kept = together([nodes.Text("有 "), nodes.math(text="n"), nodes.Text("。再看")])
        assert [child.astext() for child in kept] == ["有 ", "n。", "再看"]
        alone = [nodes.math(text="n"), nodes.Text("再看")]
        assert together(alone) == alone

    def test_what_is_typed_is_code(self) -> None:
        from docutils import nodes
        from extension.commands import words

        found = list(words('With --out, or `posenc list`: well-known -- "as is".'))
        assert [node.astext() for node in found if isinstance(node, nodes.literal)] == [
            "--out",
            "posenc list",
        ]
        assert "".join(node.astext() for node in found) == (
            'With --out, or posenc list: well-known -- "as is".'
        )

    def test_chinese_lines_are_joined(self) -> None:
        from docutils import nodes
        from extension.lines import merged

        parent = nodes.paragraph("", "", nodes.Text("位置"), nodes.Text("\n"), nodes.Text("编码"))
        assert [child.astext() for child in merged(parent)] == ["位置编码"]
        parent = nodes.paragraph("", "", nodes.Text("用"), nodes.Text("\n"), nodes.Text("RoPE"))
        assert [child.astext() for child in merged(parent)] == ["用\nRoPE"]
        link = nodes.reference("", "性质")
        parent = nodes.paragraph("", "", nodes.Text("答案见\n"), link)
        assert [child.astext() for child in merged(parent)] == ["答案见", "性质"]


def test_broken_links_of_a_site_are_found(tmp_path: Path) -> None:
    from links import problems

    (tmp_path / "en").mkdir()
    (tmp_path / "index.html").write_text("<p>the explorer</p>")
    page = (
        '<h1 id="here"></h1><a href="#here">1</a><a href="../index.html#circle&amp;lang=en">2</a>'
    )
    (tmp_path / "en" / "good.html").write_text(page)
    assert not list(problems(tmp_path))
    wrong = '<a href="gone.html"></a><a href="good.html#gone"></a><a href="https://nowhere"></a>'
    (tmp_path / "en" / "wrong.html").write_text(wrong)
    assert [line.split(" ", 2)[2] for line in problems(tmp_path)] == [
        "is missing",
        "has no such anchor",
        "is no address",
    ]


def test_panels_and_lessons_know_each_other() -> None:
    from posenc.explorer import bundle

    folder = ROOT / "posenc" / "explorer" / "panels"
    shown = re.search(r"PANELS = \[(.*?)\]", (folder / "index.js").read_text(), re.DOTALL)
    assert shown
    assert bundle.panels() == sorted(re.findall(r"\w+", shown[1]))
    told = re.search(
        r"STORY = \[(.*?)\]", (folder.parent / "story" / "index.js").read_text(), re.DOTALL
    )
    assert told
    assert bundle.chapters() == sorted(re.findall(r"\w+", told[1]))
    assert set(bundle.chapters()) <= set(bundle.panels())
    for path in (folder / f"{name}.js" for name in bundle.panels()):
        (lesson,) = re.findall(r'lesson: "([\w/]+)"', path.read_text())
        assert Path(f"{lesson}.md") in ENGLISH, path.name


def test_lessons_open_their_panels_with_the_same_settings_in_both_languages() -> None:
    from extension.panel import opened

    fence = re.compile(r"^```\{(panel|chapter)\} (.*)$", re.MULTILINE)
    for name in LESSONS:
        english, chinese = (fence.findall(pages[name].read_text()) for pages in (ENGLISH, CHINESE))
        shown = [opened(line, kind) for kind, line in english]
        assert shown == [opened(line, kind) for kind, line in chinese], name
    assert opened("rotation at=3", "chapter") == ("rotation", {"at": "3"})
    with pytest.raises(ValueError, match="no 'masks'"):
        opened("masks", "chapter")
    for wrong, message in (("circel", "no 'circel'"), ("circle pair", "'pair' is no setting")):
        with pytest.raises(ValueError, match=message):
            opened(wrong)


def test_the_explorer_leads_to_pages_that_are_there() -> None:
    source = (ROOT / "posenc" / "explorer" / "core" / "elsewhere.js").read_text()
    (listed,) = re.findall(r"PAGES = \{(.*?)\}", source)
    assert {Path(f"{page}.md") for page in re.findall(r'"([\w/]+)"', listed)} <= set(ENGLISH)


def test_both_readmes_have_the_same_sections() -> None:
    levels = [
        [level for level, _ in HEADING.findall(FENCE.sub("", page.read_text()))]
        for page in FRONT[:2]
    ]
    assert levels[0] == levels[1]
