"""Search of the built pages: what it lists first, what it quotes, and that it works from a file."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
sys.path.append(str(DOCS))
# Sphinx's script as it runs in a page, and ours after it; it answers with the pages it would list.
PROGRAM = """
const fs = require("fs"), vm = require("vm"), [folder, ...queries] = process.argv.slice(1);
const element = () => ({ children: [], append() {}, remove() {} });
const context = vm.createContext({
  document: { readyState: "loading", addEventListener() {}, getElementById: element,
    documentElement: { dataset: {}, lang: "en" }, body: {} },
  location: { search: "" }, addEventListener() {}, URLSearchParams,
  MutationObserver: class { observe() {} }, localStorage: { setItem() {} }, console,
  DOCUMENTATION_OPTIONS: {}, SPHINX_HIGHLIGHT_ENABLED: false, _ready() {}, _: (text) => text,
});
context.window = context;
for (const name of ["searchtools", "language_data", "../searchindex", "search"])
  vm.runInContext(fs.readFileSync(`${folder}/_static/${name}.js`, "utf8"), context);
const listed = (query) => vm.runInContext(
  `Search._performSearch(...Search._parseQuery(${JSON.stringify(query)}))`, context);
console.log(JSON.stringify(queries.map((query) => [...listed(query)].reverse())));
"""


def listed(node: str, site: Path, language: str, *queries: str) -> list[list[list[str]]]:
    command = [node, "-e", PROGRAM, str(site / language), *queries]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(ended.stdout)


@pytest.mark.long
@pytest.mark.parametrize(
    ("language", "query", "page"),
    [
        ("en", "rope", "learn/rotary"),
        ("en", "rotary", "learn/rotary"),
        ("en", "length extrapolation", "learn/extrapolation"),
        ("en", "alibi", "learn/alibi"),
        ("en", "yarn", "learn/scaling"),
        ("zh", "RoPE", "learn/rotary"),
        ("zh", "rope", "learn/rotary"),
        ("zh", "旋转", "learn/rotary"),
        ("zh", "旋转位置编码", "learn/rotary"),
        ("zh", "外推", "learn/extrapolation"),
        ("zh", "长度外推", "learn/extrapolation"),
        ("zh", "位置插值", "learn/scaling"),
        ("zh", "线性注意力", "learn/rotary_linear_attention"),
    ],
)
def test_the_lesson_that_explains_a_word_comes_first(
    node: str, site: Path, language: str, query: str, page: str
) -> None:
    (results,) = listed(node, site, language, query)
    assert results[0][0] == page
    assert results[0][2] == ""
    places = [(name, anchor) for name, _, anchor, description, *_ in results if not description]
    assert len(places) == len(set(places)), "each place once"


def test_every_lesson_says_what_it_explains() -> None:
    for language in ("en", "zh"):
        for path in sorted((DOCS / language / "learn").glob("*.md")):
            if path.stem != "index":
                assert re.search(r"^```\{index\} ! \w", path.read_text(), re.MULTILINE), path


@pytest.mark.long
def test_every_page_has_the_scripts_of_its_panels_and_buttons(site: Path) -> None:
    for page in site.glob("*/learn/*.html"):
        assert set(re.findall(r"_static/(panel|copy)\.js", page.read_text())) == {"panel", "copy"}


@pytest.mark.long
def test_what_is_quoted_is_no_markup(site: Path) -> None:
    for language in ("en", "zh"):
        text = (site / language / "_static" / "page_texts.js").read_text()
        pages = json.loads(text.removeprefix("var pageTexts = ").rstrip(";\n"))
        anchors = [anchor for anchor, _ in pages["learn/rotary_matrix"]]
        assert len(anchors) == len(set(anchors)) > 2
        quoted = " ".join(part for _, part in pages["learn/rotary_matrix"])
        assert "R_" not in quoted
        assert not re.search(r"\\[a-z]{3}|<a |\{index\}", quoted)


def test_calls_are_not_quoted() -> None:
    from docutils import nodes
    from extension.page_texts import said
    from sphinx import addnodes

    call = addnodes.desc_signature("", "", nodes.Text("Rotary(dim: int)"))
    assert said(nodes.section("", nodes.paragraph("", "Turns."), call)).split() == ["Turns."]


def searched(chromium: str, site: Path, language: str, query: str) -> tuple[str, str]:
    """The search page as a file, after its scripts, and what the browser complains of."""
    address = f"{(site / language / 'search.html').as_uri()}?q={query}"
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=8000"]
    ended = subprocess.run(
        [chromium, *options, "--enable-logging=stderr", "--dump-dom", address],
        capture_output=True,
        text=True,
        check=True,
    )
    return ended.stdout, "\n".join(re.findall(r".*CONSOLE.*", ended.stderr))


@pytest.mark.long
@pytest.mark.parametrize(
    ("language", "query", "quoted"),
    [("en", "rope", "Rotary position embedding"), ("zh", "旋转位置", "旋转位置编码（RoPE）")],
)
def test_results_are_quoted_from_a_file(
    chromium: str, site: Path, language: str, query: str, quoted: str
) -> None:
    page, complaints = searched(chromium, site, language, query)
    assert complaints == ""
    quotes = re.findall(r'<p class="context">(.*?)</p>', page, re.DOTALL)
    assert len(quotes) >= 3
    assert quoted in re.sub("<[^>]*>", "", quotes[0])


@pytest.mark.long
@pytest.mark.parametrize(
    ("language", "typed", "said", "meant"),
    [
        ("en", "extrapolaton", "Did you mean", "extrapolation"),
        ("zh", "shww", "您要找的是不是", "shaw"),
    ],
)
def test_a_typo_is_answered_with_the_nearest_word(
    chromium: str, site: Path, language: str, typed: str, said: str, meant: str
) -> None:
    page, _ = searched(chromium, site, language, typed)
    (answer,) = re.findall(r'<p id="meant">(.*?)</p>', page)
    assert re.sub("<[^>]*>", "", answer).rstrip("?？") == f"{said} {meant}"
