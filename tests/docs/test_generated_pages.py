"""Generated pages in Chinese: Chinese throughout, with the numbers of the English ones."""

import json
import re
import sys

import pytest
from prose import english

from posenc.chinese import FOLDER
from tests.support.pages import DOCS

sys.path.append(str(DOCS.parent / "tools"))

import chinese_peers

PAGES = ("properties", "conformance")
NUMBER = re.compile(r"(?<![\w.:/])[\d,]*\d(?:\.\d+)?(?:e[-+]\d+)?(?![\w./])")


def page(language: str, name: str) -> str:
    return (DOCS / language / "reference" / f"{name}.md").read_text("utf-8")


def numbers(language: str, name: str) -> list[list[str]]:
    """Of each row that is no explanation, without the words that say what was compared."""
    lines = (line.split(" | ") for line in page(language, name).splitlines() if line[:1] == "|")
    rows = [cells for cells in lines if len(cells) > 2]
    kept = [[*cells[:1], *cells[2:]] if name == "conformance" else cells for cells in rows]
    return [sorted(NUMBER.findall(" | ".join(cells))) for cells in kept]


@pytest.mark.parametrize("name", PAGES)
def test_its_tables_have_the_numbers_of_the_english_page(name: str) -> None:
    found = numbers("zh", name)
    assert found == numbers("en", name)
    assert sum(map(bool, found)) > 60


def test_properties_are_told_in_chinese() -> None:
    assert english(page("zh", "properties")) == []


def test_peers_of_encodings_with_a_text_are_told_in_chinese() -> None:
    report = json.loads((DOCS / "conformance.json").read_text())
    peers = [row for row in report["peers"] if (FOLDER / f"{row['encoding']}.md").exists()]
    whats = {row["oracle"].partition(": ")[2] for row in peers if "paper" not in row["oracle"]}
    assert whats - set(chinese_peers.WHAT) == set()
    assert {row["cap"] for row in peers if row["cap"]} - set(chinese_peers.CAPS) == set()
    assert english(page("zh", "conformance").partition("\n| ")[0]) == []
