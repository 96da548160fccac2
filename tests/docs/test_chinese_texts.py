"""What each encoding is in Chinese: whole, in Chinese words, and of the class that there is."""

import inspect
import re
import sys
from collections import Counter
from pathlib import Path

import pytest
from prose import HAN, english
from typer.testing import CliRunner

import posenc as pe
from posenc import chinese
from posenc.commands import app

sys.path.append(str(Path(__file__).parents[2] / "tools"))

import catalogue
import properties
from punctuate import punctuate

TEXTS = sorted(path.stem for path in chinese.FOLDER.glob("*.md"))
FORMULA = re.compile(r"^    .+$", re.MULTILINE)
CITED = re.compile(r"arXiv:\d+\.\d+|https?://[^\s，、；：。（）]+(?<![.,;:)])")


@pytest.fixture(params=TEXTS)
def kind(request: pytest.FixtureRequest) -> type[pe.Encoding]:
    return pe.encodings()[request.param]


def test_every_encoding_has_a_text_but_newcomers() -> None:
    lacking = set(pe.encodings()) - set(TEXTS)
    assert len(TEXTS) >= 29, f"no Chinese text: {', '.join(sorted(lacking))}"


def test_it_is_in_chinese(kind: type[pe.Encoding]) -> None:
    text = chinese.described(kind)
    assert english(text) == []
    paragraphs = [part for part in text.split("\n\n") if not part.startswith("    ")]
    assert [part for part in paragraphs if not HAN.search(part)] == []


def test_the_command_and_the_page_say_it_in_chinese(kind: type[pe.Encoding]) -> None:
    shown = CliRunner().invoke(app, ["show", kind.name, "--language", "zh"]).stdout
    assert chinese.described(kind) in shown
    assert english(shown.partition("\n例子\n")[0]) == []
    page = catalogue.page(properties.card(kind), "zh")
    assert english(page) == []
    assert punctuate(page) == page
    assert "英文" not in page


def test_every_setting_has_its_words(kind: type[pe.Encoding]) -> None:
    told = chinese.entries(kind, chinese.SETTINGS)
    assert list(told) == list(inspect.signature(kind).parameters)
    assert all(HAN.search(words) and words.endswith("。") for words in told.values())


def test_every_reason_of_a_tag_has_its_words(kind: type[pe.Encoding]) -> None:
    reasons = [name for name, value in vars(kind.tags).items() if isinstance(value, str)]
    assert list(chinese.entries(kind, chinese.TAGS)) == reasons


def test_errors_formulas_and_sources_are_those_of_the_docstring(kind: type[pe.Encoding]) -> None:
    ours, theirs = chinese.described(kind), inspect.getdoc(kind) or ""
    for found in (r"\b[A-Z]\w+Error\b", CITED):
        assert set(re.findall(found, ours)) == set(re.findall(found, theirs))
    # Words of a formula are translated, numbers are not.
    numbers = (
        Counter(re.findall(r"\b\d+|\*\*", "".join(FORMULA.findall(text))))
        for text in (ours, theirs)
    )
    assert next(numbers) == next(numbers)


def test_a_users_class_speaks_for_itself() -> None:
    class Mine(pe.Rotary):
        """My own RoPE."""

    assert chinese.described(Mine) == chinese.described(Mine, "en") == "My own RoPE."
    assert chinese.entries(Mine, chinese.SETTINGS) == {}
